// Package discovery stands for that of Kubernetes' client, which charts are rendered without.
package discovery

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Client would ask a cluster which kinds of objects it has.
type Client struct{}

// NewDiscoveryClientForConfig fails: there is no cluster.
func NewDiscoveryClientForConfig(*rest.Config) (*Client, error) {
	return nil, errors.New("there is no cluster")
}

// ServerResourcesForGroupVersion is never called.
func (*Client) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	return nil, errors.New("there is no cluster")
}
