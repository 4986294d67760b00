package parity

import (
	"fmt"
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

func (g *generator) pods(n int) []Pod {
	pods := make([]Pod, 0, n)
	for i := range n {
		pods = append(pods, g.pod(fmt.Sprintf("pod-%03d", i)))
	}
	g.Shuffle(n, func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	return pods
}

func (g *generator) pod(name string) Pod {
	p := Pod{Name: name, Namespace: "shop", Kind: Replica, Priority: g.priority(), Age: g.IntN(3)}
	g.role(&p)
	g.containers(&p)
	g.ownResources(&p)
	g.volumes(&p)
	g.uses(&p)
	if p.Memory != nil {
		p.Cached = *p.Memory / 4 * int64(p.Age)
	}
	if g.chance(g.odd) {
		g.oddity(&p)
	}
	return p
}

// priority returns any int32, or none.
func (g *generator) priority() *int32 {
	if g.few != nil {
		return []*int32{nil, new(int32(0)), new(int32(100)), new(int32(-100))}[g.IntN(4)]
	}
	switch g.IntN(6) {
	case 0:
		return nil
	case 1:
		return new(g.Int32N(5) - 2)
	case 2:
		edges := []int32{
			math.MinInt32, math.MinInt32 + 1, -1, 0, 999999999, 1000000000, 1999999999, 2000000000, 2000001000, math.MaxInt32,
		}
		return new(edges[g.IntN(len(edges))])
	default:
		return new(int32(g.Uint32())) //nolint:gosec // all of them
	}
}

// role makes the pod something other than a replica.
func (g *generator) role(p *Pod) {
	switch {
	case g.chance(2):
		p.Kind = Static
	case g.odd > 0 && g.chance(10):
		p.Kind = []Kind{Daemon, Bare}[g.IntN(2)]
	}
	p.Finished = g.chance(2)
	p.Terminating = g.chance(g.odd / 4)
	if g.odd > 0 && g.chance(5) {
		p.Namespace = "kube-system"
	}
	if g.odd > 0 && g.chance(5) {
		p.Label = map[string]string{"keep": "me"}
	}
}

func (g *generator) containers(p *Pod) {
	for range 1 + g.IntN(3) {
		p.Containers = append(p.Containers, g.container(Main))
	}
	if g.chance(30) {
		for range 1 + g.IntN(3) {
			p.Containers = append(p.Containers, g.container([]Role{Init, Sidecar}[g.IntN(2)]))
		}
	}
}

func (g *generator) container(role Role) Container {
	c := Container{Role: role, Requests: map[string]string{}}
	if g.chance(70) {
		c.Requests["memory"] = g.request()
		if g.chance(5) {
			c.Allocated = g.request()
		}
	}
	if g.chance(50) {
		c.Requests["ephemeral-storage"] = g.request()
	}
	if g.chance(50) {
		c.Requests["cpu"] = g.pick("100m", "1", "0")
	}
	if role != Init {
		c.Rootfs, c.Logs = g.disk(), g.disk()
	}
	return c
}

func (g *generator) request() string {
	if g.few != nil || g.chance(50) {
		return strconv.FormatInt(g.amount(), 10)
	}
	return g.pick("0", "64Mi", "100M", "128974848", "129e6", "123Mi", "1Gi", "1.5Gi", "2G", "1e9", "0.5Gi", "1k")
}

// ownResources gives the pod overhead, and its own requests and limits.
func (g *generator) ownResources(p *Pod) {
	if g.chance(15) {
		p.Overhead = map[string]string{g.pick("memory", "ephemeral-storage"): g.request(), "cpu": "10m"}
	}
	if g.chance(15) {
		p.Requests = map[string]string{g.pick("memory", "cpu", "hugepages-2Mi", "memory"): g.request()}
	}
	if g.chance(5) {
		p.Limits = map[string]string{g.pick("memory", "cpu"): "8Gi"}
	}
}

func (g *generator) volumes(p *Pod) {
	if !g.chance(40) {
		return
	}
	for range 1 + g.IntN(3) {
		v := Volume{Kind: g.pick("emptyDir", "emptyDir", "memory", "configMap", "gitRepo", "secret", "hostPath")}
		if v.Kind != "hostPath" {
			v.Disk = g.disk()
		}
		p.Volumes = append(p.Volumes, v)
	}
}

func (g *generator) disk() *Disk { return &Disk{Bytes: g.amount(), Inodes: g.amount() >> 12} }

// uses gives the pod its figures, close to its request where it has one.
func (g *generator) uses(p *Pod) {
	pod := p.kubelet()
	p.Memory = new(g.beside(asked(pod, corev1.ResourceMemory)))
	p.Tasks = new(g.amount() >> 20)
	p.Processes = new(*p.Tasks)
	if storage := asked(pod, corev1.ResourceEphemeralStorage); g.chance(30) {
		for i := range p.Containers {
			if p.Containers[i].Role != Init {
				p.Containers[i].Rootfs, p.Containers[i].Logs = &Disk{Inodes: 1}, &Disk{}
			}
		}
		p.Volumes = nil
		p.Containers[0].Rootfs.Bytes = g.beside(storage)
	}
}

// oddity gives the pod a property that evictd treats differently.
func (g *generator) oddity(p *Pod) {
	c := &p.Containers[g.IntN(len(p.Containers))]
	switch g.IntN(10) {
	case 0:
		p.Unsampled = true
	case 1:
		p.Memory = nil
	case 2:
		p.Tasks = nil
	case 3, 8, 9:
		p.Tasks = new(*p.Processes + int64(g.IntN(50)))
	case 4:
		c.Requests[g.pick("memory", "ephemeral-storage")] = g.pick("100m", "1.3Gi", "0.5", "1500m")
	case 5:
		c.Logs = nil
	case 6:
		c.Rootfs = nil
	default:
		p.Volumes = append(p.Volumes, Volume{Kind: g.pick("hostPath", "emptyDir", "secret")})
		if v := &p.Volumes[len(p.Volumes)-1]; v.Kind == "hostPath" {
			v.Disk = g.disk()
		}
	}
}
