// Package schema stands for that of Kubernetes' client, which charts are rendered without.
package schema

// GroupVersion is a group of kinds of objects, in a version.
type GroupVersion struct{ Group, Version string }

// GroupVersionKind is a kind in it.
type GroupVersionKind struct{ Group, Version, Kind string }

// GroupVersionResource is the name of a kind in URLs.
type GroupVersionResource struct{ Group, Version, Resource string }

func (group GroupVersion) String() string {
	if group.Group == "" {
		return group.Version
	}
	return group.Group + "/" + group.Version
}

func (kind GroupVersionKind) String() string {
	return kind.GroupVersion().String() + ", Kind=" + kind.Kind
}

// GroupVersion is that of the kind.
func (kind GroupVersionKind) GroupVersion() GroupVersion {
	return GroupVersion{kind.Group, kind.Version}
}

// FromAPIVersionAndKind keeps both as they are.
func FromAPIVersionAndKind(version, kind string) GroupVersionKind {
	return GroupVersionKind{Version: version, Kind: kind}
}
