// Package dynamic stands for that of Kubernetes' client, which charts are rendered without.
package dynamic

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Content would be an object, or a list of them.
type Content interface {
	UnstructuredContent() map[string]interface{}
}

// ResourceInterface would read the objects of a kind.
type ResourceInterface interface {
	Get(ctx context.Context, name string, options metav1.GetOptions, subresources ...string) (Content, error)
	List(ctx context.Context, options metav1.ListOptions) (Content, error)
}

// NamespaceableResourceInterface would do so in all namespaces, or in one.
type NamespaceableResourceInterface interface {
	Namespace(string) ResourceInterface
	ResourceInterface
}

// Interface would be a client.
type Interface interface {
	Resource(schema.GroupVersionResource) NamespaceableResourceInterface
}

// NewForConfig fails: there is no cluster.
func NewForConfig(*rest.Config) (Interface, error) {
	return nil, errors.New("there is no cluster")
}
