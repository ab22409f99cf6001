module k8s.io/apiextensions-apiserver

go 1.25.0

require k8s.io/client-go v0.37.0
