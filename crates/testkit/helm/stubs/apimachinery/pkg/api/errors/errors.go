// Package errors stands for that of Kubernetes' client, which charts are rendered without.
package errors

// IsNotFound would tell a missing object from other failures.
func IsNotFound(error) bool { return false }
