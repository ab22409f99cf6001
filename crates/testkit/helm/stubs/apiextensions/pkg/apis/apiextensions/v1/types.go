// Package v1 stands for that of Kubernetes' client, which charts are rendered without.
package v1

import "k8s.io/client-go/kubernetes/scheme"

// AddToScheme adds no types.
func AddToScheme(*scheme.Types) error { return nil }
