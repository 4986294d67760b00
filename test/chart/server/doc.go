// Package server holds the tests of the Helm chart and of the kustomizations that need a real API server:
// that it takes each variant, that a moved release is confined, and what Helm does to a release. The first
// test builds and starts it.
package server
