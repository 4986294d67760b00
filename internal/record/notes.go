package record

import (
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// The values of the result label.
const (
	resultSuccess = "Success"
	resultFailure = "Failure"
)

// Acting notes whether evictd acts, at the start and after each change. Where it is stopped, or does
// not know whether it is, an Event on the node says so, and another when that is over; what the
// configuration says has none. An answer that is still awaited has a metric alone: it comes within a
// moment, or what prevents it does.
func (r *Recorder) Acting(s acting.State) {
	r.metrics.dryRun.WithLabelValues().Set(number(!s.Acts()))
	for _, reason := range acting.Reasons() {
		r.metrics.dryRunReason.WithLabelValues(string(reason)).Set(number(s.Reason == reason))
	}
	if awaited := s.Reason == acting.StopUnknown && s.Do == ""; awaited {
		return
	}
	r.mu.Lock()
	last := r.acting
	r.acting = &s
	r.mu.Unlock()
	if last != nil && *last == s {
		return
	}
	level, detail := zapcore.InfoLevel, strings.TrimSuffix(s.Why+"; "+s.Do, "; ")
	if stopped(s) {
		level = zapcore.WarnLevel
		r.onNode(reasonStopped, "{state}", s.String(), "{do}", s.Do)
	} else if last != nil && stopped(*last) {
		r.onNode(reasonResumed, "{state}", s.String())
	}
	if s.Acts() {
		r.logger.Info("evictd acts")
		return
	}
	r.logger.Log(level, "evictd does not act", with("reason", s.Reason, "detail", detail)...)
}

// stopped reports whether evictd does not act for another reason than its configuration.
func stopped(s acting.State) bool { return !s.Acts() && s.Reason != acting.Configured }

// InForce notes the thresholds that are in force, at the start and after each edit that is applied.
func (r *Recorder) InForce(thresholds []pressure.Threshold, edited bool) {
	r.mu.Lock()
	r.thresholds = slices.Clone(thresholds)
	r.mu.Unlock()
	if edited {
		r.metrics.reloads.WithLabelValues(resultSuccess).Inc()
		r.metrics.lastReload.WithLabelValues().Set(1)
		r.logger.Info("configuration applied")
	}
}

// Refused notes that the configuration file was refused, at the start or after an edit. Instead says in one
// clause what evictd does until the file is valid.
func (r *Recorder) Refused(err error, instead string) {
	r.metrics.reloads.WithLabelValues(resultFailure).Inc()
	r.metrics.lastReload.WithLabelValues().Set(0)
	r.logger.Error("configuration refused", zap.Error(err), zap.String("detail", instead))
	r.onNode(reasonRefused, "{instead}", instead, "{error}", wording.OneLine(err.Error()))
}

// Tainted notes a change of the node's taints, by their keys. A dry run has changed nothing.
func (r *Recorder) Tainted(added, removed []string, dryRun bool) {
	if len(added) > 0 {
		r.logger.Info("tainted the node", with("taints", added, "dry_run", dryRun)...)
	}
	if len(removed) > 0 {
		r.logger.Info("removed the node's taint", with("taints", removed, "dry_run", dryRun)...)
	}
}

// Wakeups records, at the start and at each change, whether the kernel wakes the loop because of a
// source, and if not, why. Neither is a warning or an error: without it, pacing alone continues.
func (r *Recorder) Wakeups(state pressure.WakeState) {
	r.metrics.wakeups.WithLabelValues(string(state.Source)).Set(number(state.Err == nil))
	if state.Err != nil {
		r.logger.Info("the kernel does not wake the loop, which goes on by pacing alone", zap.String("source", string(state.Source)), zap.NamedError("detail", state.Err))
		return
	}
	r.logger.Info("the kernel wakes the loop", with("source", state.Source, "window_seconds", state.Window.Seconds())...)
}

// Woken counts one event of the kernel. It logs nothing: there may be one a second.
func (r *Recorder) Woken(source pressure.WakeSource) {
	r.metrics.stalls.WithLabelValues(string(source)).Inc()
}

// OOMKilled writes down that the kernel killed a container of a pod for want of memory, by an Event on the pod too.
// What the container used is not known: its cgroup has ended with it.
func (r *Recorder) OOMKilled(pod *nodepods.Pod, kill nodepods.OOMKilled) {
	r.logger.Warn("the kernel killed processes of a pod for want of memory", with("pod", pod.Key(), "uid", pod.UID, "oom_kills", 1, "container", kill.Container)...)
	if !r.tellsKill(pod.UID, r.settings.Now()) {
		return
	}
	limit := ""
	if kill.MemoryLimit > 0 {
		limit = ", with a memory limit of " + rank.Bytes(kill.MemoryLimit)
	}
	r.tell(podReference(pod.Namespace, pod.Name, pod.UID), reasonOOMKilled, "{container}", kill.Container, "{limit}", limit)
}

// tellsKill reports whether a pod gets an Event of a kill now, and notes that it does: one a minute at most.
func (r *Recorder) tellsKill(uid string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.killed, func(_ string, told time.Time) bool { return now.Sub(told) >= time.Minute })
	_, told := r.killed[uid]
	if !told {
		r.killed[uid] = now
	}
	return !told
}

// KubeletThresholds shows before which of evictd's thresholds the kubelet's would be met; none where that is not
// known. The checks say what to do.
func (r *Recorder) KubeletThresholds(compared []kubeletconfig.Finding) {
	r.metrics.kubeletFirst.Reset()
	for i := range compared {
		r.metrics.kubeletFirst.WithLabelValues(compared[i].Signal.String()).Set(number(compared[i].First))
	}
}

// Check notes a check of the start, or after an edit of the configuration, that is not ok: its state, what was
// found, what follows and what to do.
func (r *Recorder) Check(name, state, found, follows, do string) {
	r.logger.Warn("a check is not ok", with("check", name, "state", state, "detail", found, "follows", follows, "do", do)...)
}

// Confined shows whether the API server's policies confine evictd to its node. It is not called while that
// is not known.
func (r *Recorder) Confined(confined bool) {
	r.metrics.confined.WithLabelValues().Set(number(confined))
}
