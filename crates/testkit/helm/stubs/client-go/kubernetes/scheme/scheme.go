// Package scheme stands for that of Kubernetes' client, which charts are rendered without.
package scheme

import "k8s.io/apimachinery/pkg/runtime/schema"

// Types would be those of all objects.
type Types struct{}

// PrioritizedVersionsAllGroups has the group that all clusters have.
func (*Types) PrioritizedVersionsAllGroups() []schema.GroupVersion {
	return []schema.GroupVersion{{Group: "", Version: "v1"}, {Group: "apps", Version: "v1"}}
}

// Scheme has no types: objects are checked by their schemas.
var Scheme = &Types{}
