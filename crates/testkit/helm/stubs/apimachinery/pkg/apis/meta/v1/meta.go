// Package v1 stands for that of Kubernetes' client, which charts are rendered without.
package v1

// GetOptions would say how an object is read.
type GetOptions struct{}

// ListOptions would say which objects are read.
type ListOptions struct{}

// APIResource would describe a kind of objects.
type APIResource struct {
	Name, Kind, Group, Version string
	Namespaced                 bool
}

// APIResourceList would be the kinds of a group.
type APIResourceList struct {
	APIResources []APIResource
}
