# The first process of a node, in mount and PID namespaces that have just been made: here the machine looks like a
# standard node. With this process the kernel ends all others in the PID namespace, containers too, and with the last
# of them the mounts and the loop devices.
#
#	node.sh FOLDER PID_MAX DISK...
set -e
dir=$1 pid_max=$2
shift 2
mount -n --make-rprivate /

for disk; do # the outer one first
	mkdir -p "$dir/$disk"
	mount -n -t ext4 -o loop "$dir/${disk##*/}.ext4" "$dir/$disk"
done

# room TARGET: makes a folder that the machine lacks, here only: an empty filesystem covers its parent, into which all
# that was there is bound again.
room() {
	parent=${1%/*}
	case " $covered " in *" $parent "*) ;; *)
		covered="$covered $parent" below=$dir/below$parent
		mkdir -p "$below"
		mount -n --rbind "$parent" "$below"
		mount -n -t tmpfs -o nosuid,nodev,mode="$(stat -c %a "$parent")" tmpfs "$parent"
		for each in "$below"/* "$below"/.[!.]*; do
			if [ -L "$each" ]; then
				cp -P "$each" "$parent"
				continue
			elif [ -d "$each" ]; then
				mkdir "$parent/${each##*/}"
			elif [ -e "$each" ]; then
				: >"$parent/${each##*/}"
			else
				continue
			fi
			mount -n --rbind "$each" "$parent/${each##*/}"
		done ;;
	esac
	mkdir "$1"
}

# bind SOURCE TARGET
bind() {
	mkdir -p "$dir/$1"
	[ -d "$2" ] || room "$2"
	mount -n -o bind "$dir/$1" "$2"
}
bind node/kubelet /var/lib/kubelet
bind node/containerd /var/lib/containerd
bind node/run-containerd /run/containerd
bind node/log-pods /var/log/pods
bind node/log-containers /var/log/containers

mount -n -t proc proc /proc
echo "$pid_max" >/proc/sys/kernel/pid_max # each PID namespace has its own since Linux 6.14
# A kubelet sets these for the whole machine: here it sets files.
for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
	[ -e /proc/sys/$setting ] || continue
	cat /proc/sys/$setting >"$dir/${setting##*/}"
	mount -n -o bind "$dir/${setting##*/}" /proc/sys/$setting
done
# Shared among this namespace and the containers', as on a node set up by systemd: volumes may use HostToContainer
# propagation.
mount -n --make-rshared /
echo ready
trap '' CHLD # the kernel reaps what others leave behind
exec sleep 2147483647
