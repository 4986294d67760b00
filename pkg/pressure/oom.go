package pressure

import "github.com/evictd/evictd/internal/kernelfile"

// vmstatMax is more than /proc/vmstat has: about 5,000 bytes.
const vmstatMax = 64 << 10

// OOMKills returns how many processes the OOM killer has killed since boot, for cgroup
// limits or on the whole machine: oom_kill of /proc/vmstat (Linux 4.13). An error means that
// the number is unknown.
func OOMKills(hostRoot string) (int64, error) {
	options := Options{HostRoot: hostRoot}
	file := newKernelFile(options.host("/proc/vmstat"), vmstatMax)
	defer file.Close()
	content, err := file.read()
	if err != nil {
		return 0, err
	}
	return kernelfile.Stat(content, "oom_kill ")
}
