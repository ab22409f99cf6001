// Package rest stands for that of Kubernetes' client, which charts are rendered without.
package rest

// Config would say where a cluster is.
type Config struct{}
