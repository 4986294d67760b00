package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The kubelet evicts a pod itself: the API server lists it as failed, the object stays, and
// its cgroup is removed shortly after.
func TestKubeletsVictimCoversTheDeficit(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.within("evictd is ready", s.ready)
	large, err := s.client.CoreV1().Pods(s.namespace).Get(t.Context(), "large", metav1.GetOptions{})
	s.must(err)
	begun := time.Now()
	large.Status.Phase, large.Status.Reason = corev1.PodFailed, "Evicted"
	large, err = s.client.CoreV1().Pods(s.namespace).UpdateStatus(t.Context(), large, metav1.UpdateOptions{})
	s.must(err)
	s.within("evictd knows it", func() bool { return s.watchedSince(begun) })
	s.pressed()
	s.within("evictd relies on the kubelet's victim", func() bool {
		n, _ := s.daemon.metric("evictd_holds_total", "hold", "ReclaimInProgress")
		return n > 0
	})
	s.endure(2 * time.Second)
	s.host.end(large, 1024)
	s.within("the pressure is over", func() bool {
		pressed, _ := s.daemon.metric("evictd_pressure")
		leaving, told := s.daemon.metric("evictd_victims_in_flight")
		return told && pressed == 0 && leaving == 0
	})
	if got := s.hand.taken(); len(got) != 0 {
		t.Errorf("evicted %v beside the kubelet's victim, want no pod", got)
	}
	s.pressed() // the failed pod is still listed, and nothing more is reclaimed from it
	s.expectVictims("small")
}

func TestKubeletThatWouldActFirstIsWarnedAbout(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	s.host.write("sys/fs/cgroup/memory.stat", "anon 9663676416\nfile 0\ninactive_file 0\n") // 9 GiB: the kubelet sees a GiB less than evictd
	s.kubeletSays(head + "evictionHard: {memory.available: 1Gi}\n")
	s.start()
	s.within("evictd is ready", s.ready)
	s.expectThresholdCheck(1, 1)
	for _, fragment := range []string{
		"the kubelet would evict before evictd", "below 1.0Gi (evictionHard in ", "evictd below 500.0Mi (evictionHard)", "write a threshold above 1.0Gi in evictd's",
	} {
		if !strings.Contains(s.daemon.log.String(), fragment) {
			t.Errorf("the log lacks %q", fragment)
		}
	}
	s.reconfigure("evictionHard: {memory.available: 2Gi}\n")
	s.expectThresholdCheck(1, 0)
	s.kubeletSays("evictionHard: [")
	s.reconfigure("evictionHard: {memory.available: 3Gi}\n")
	s.within("the kubelet's file is not understood", func() bool {
		read, told := s.daemon.metric("evictd_kubelet_config_read")
		return told && read == 0
	})
	if _, there := s.daemon.metric("evictd_kubelet_acts_first"); there {
		t.Error("what is not known has a figure")
	}
	s.reconfigure("evictionHard: {memory.available: 4Gi}\n")
	s.within("the configuration is in force", func() bool {
		line, _ := s.daemon.metric("evictd_threshold_line_bytes")
		return line == 4<<30
	})
	if n := strings.Count(s.daemon.log.String(), "are not known and not compared"); n != 1 {
		t.Errorf("it is said %d times that the kubelet's file is not understood, want once", n)
	}
	if !s.ready() {
		t.Error("not ready, for want of the kubelet's configuration")
	}
}

func (s *scene) kubeletSays(text string) {
	s.t.Helper()
	s.must(os.WriteFile(filepath.Join(s.host.root, "var/lib/kubelet/config.yaml"), []byte(text), 0o600))
}

// reconfigure replaces evictd's configuration, as an editor does.
func (s *scene) reconfigure(policy string) {
	s.t.Helper()
	path := s.daemon.config
	s.must(os.WriteFile(path+".new", written(policy), 0o600))
	s.must(os.Rename(path+".new", path))
}

func (s *scene) expectThresholdCheck(read, first float64) {
	s.t.Helper()
	s.within("the two configurations were compared", func() bool {
		r, told := s.daemon.metric("evictd_kubelet_config_read")
		f, there := s.daemon.metric("evictd_kubelet_acts_first", "signal", "memory.available")
		return told && there && r == read && f == first
	})
}
