// Package version stands for that of Kubernetes' client, which charts are rendered without.
package version

import (
	"fmt"
	"strings"
)

// Version is a release of Kubernetes.
type Version struct{ major, minor, patch uint }

// ParseGeneric reads vMAJOR.MINOR.PATCH.
func ParseGeneric(text string) (*Version, error) {
	version := &Version{}
	_, err := fmt.Sscanf(strings.TrimPrefix(text, "v"), "%d.%d.%d", &version.major, &version.minor, &version.patch)
	return version, err
}

// Major is its first number.
func (version *Version) Major() uint { return version.major }

// Minor is its second number.
func (version *Version) Minor() uint { return version.minor }

func (version *Version) String() string {
	return fmt.Sprintf("%d.%d.%d", version.major, version.minor, version.patch)
}
