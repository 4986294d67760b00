#!/bin/sh
# Pins a version of Kubernetes, with the staging modules it was released with, here and in
# test/parity, which compares with the same kubelet:
#   ./update.sh v1.37.1
# k8s.io/kubernetes replaces them by folders that only its own repository has.
set -eu
version=${1:?usage: update.sh v1.X.Y}
staging=v0.${version#v1.}
cd "$(dirname "$0")"
export GOWORK=off

released=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
for folder in . ../../parity; do
	(
		cd "$folder"
		go mod edit -require="k8s.io/kubernetes@$version"
		for module in $(sed -n 's#^[[:space:]]*\(k8s\.io/[a-z-]*\) => \./staging/.*#\1#p' "$released"); do
			go mod edit -replace="$module=$module@$staging"
		done
		go mod tidy
	)
done
