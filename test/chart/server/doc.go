// Package server holds the tests of the Helm chart and of the kustomizations that need a real API server: that
// it takes each variant. $EVICTD_CLUSTER_BIN names the directory of its binaries.
package server
