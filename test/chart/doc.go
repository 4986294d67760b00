// Package chart renders the Helm chart and the kustomizations, by Helm's and kustomize's own libraries, for
// its tests and for those in the folder server. Its own need no cluster: both give the same objects, each
// value of the chart changes what it says, and the schema refuses what is wrong.
package chart
