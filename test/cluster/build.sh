#!/bin/sh
# Builds the programs of the test cluster from their Go modules:
#
#   build.sh FOLDER              etcd and the control plane
#   build.sh FOLDER node         the scheduler, kubelet and containerd too
#   build.sh FOLDER prometheus   Prometheus and promtool alone
#
# What go.mod and go.sum of a module determine is built once for all checkouts, into $EVICTD_CACHE by a
# stamp of them. The cache may be deleted at any time.
set -eu
folder=$1 node=${2:-}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd -P)
cache=${EVICTD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/evictd}
cd "$(dirname "$0")"
export CGO_ENABLED=0 GOWORK=off

# compile MODULE FLAGS PACKAGE FILE
compile() { (cd "$1" && go build -trimpath -buildvcs=false -tags "${tags:-}" -ldflags "$2" -o "$4" "$3"); }

# pinned MODULE FLAGS PACKAGE...
pinned() {
	module=$1 flags=$2
	shift 2
	stamp=$(cd "$module" && {
		printf '%s\n%s\n' "$(go env GOVERSION GOOS GOARCH GOAMD64 GOARM64 GOEXPERIMENT GOFLAGS | sed 's/-trimpath//g')" "$flags"
		cat go.mod go.sum
	} | sha256sum | cut -c 1-16)
	mkdir -p "$cache/cluster-$stamp"
	for package; do
		name=$(basename "${package%/server/v3}")
		place "$cache/cluster-$stamp/$name" "$folder/$name"
	done
}

# place CACHED TARGET makes the target the cached program of $package, which it builds where it is missing: a
# hard link, or a copy on another filesystem. No symbolic link: the virtual machines' disks are made of these
# files. A new name each time, as another checkout may do the same: never write to a link.
place() {
	if [ ! -f "$1" ]; then
		echo "Building $name, which takes minutes when the build cache is cold." >&2
		compile "$module" "$flags" "$package" "$1.$$"
		mv -f "$1.$$" "$1"
	fi
	if [ "$1" -ef "$2" ] || cmp -s "$1" "$2"; then
		return
	fi
	ln -f "$1" "$2.$$" 2>/dev/null || cp -p "$1" "$2.$$"
	mv -f "$2.$$" "$2"
}

if [ "$node" = prometheus ]; then
	tags=remove_all_sd # it is told its targets
	pinned prometheus '-s -w' github.com/prometheus/prometheus/cmd/prometheus github.com/prometheus/prometheus/cmd/promtool
	exit
fi
# Without their version the servers report v0.0.0-master, and clients reject the skew.
version=$(sed -n 's|^[[:space:]]*k8s\.io/kubernetes \(v[^ ]*\).*|\1|p' kubernetes/go.mod)
minor=${version#v*.}
stripped='-s -w' versioned='-s -w'
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	versioned="$versioned -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*}"
done
servers=k8s.io/kubernetes/cmd runtime=github.com/containerd/containerd/v2/cmd
compile . "$stripped" github.com/evictd/evictd/test/cluster/cmd/workload "$folder/workload"
pinned containerd "$stripped" go.etcd.io/etcd/server/v3
pinned kubernetes "$versioned" $servers/kube-apiserver $servers/kube-controller-manager $servers/kubectl
if [ "$node" = node ]; then
	pinned kubernetes "$versioned" $servers/kube-scheduler $servers/kubelet
	pinned containerd "$stripped" $runtime/containerd $runtime/containerd-shim-runc-v2 $runtime/ctr
fi
