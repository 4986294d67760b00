package record

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/evictd/evictd/internal/kubeletconfig"
)

// KubeletThresholds notes what the kubelet's configuration means beside evictd's, at start and after
// each change of evictd's.
func (r *Recorder) KubeletThresholds(kubelet *kubeletconfig.Configuration, result *kubeletconfig.Result) {
	for _, entry := range kubelet.Unread {
		r.logger.Warn(messageKubeletEntry, zap.Strings(keyFiles, kubelet.Files), zap.String(keyDetail, entry))
	}
	for i := range result.Findings {
		f := &result.Findings[i]
		level, message := said(f.Kind)
		r.logger.Log(level, message, zap.Stringer(keySignal, f.Signal), zap.String(keyDetail, f.Detail))
	}
	r.metrics.kubeletThresholds(result)
}

// KubeletThresholdsUnknown reports that the kubelet's configuration is not known, and so not
// compared. It is a warning when the configuration names the file.
func (r *Recorder) KubeletThresholdsUnknown(named bool, err error) {
	level := zapcore.InfoLevel
	if named {
		level = zapcore.WarnLevel
	}
	r.logger.Log(level, messageNotCompared, zap.Error(err))
	r.metrics.kubeletThresholds(nil)
}

// KubeletHeadroom shows how far the node's memory is above the kubelet's hard threshold, in bytes by
// the kubelet's measure; nothing where that is not known.
func (r *Recorder) KubeletHeadroom(bytes int64, known bool) {
	if !known {
		r.metrics.kubeletHeadroom.Reset()
		return
	}
	r.metrics.kubeletHeadroom.WithLabelValues().Set(float64(bytes))
}

// KubeletNear notes that the kubelet's threshold has come near while evictd's are far, by the log and
// an Event on the node, or that this is over.
func (r *Recorder) KubeletNear(h *kubeletconfig.Headroom) {
	if !h.Near {
		r.logger.Info(messageKubeletFar, zap.Int64(keyHeadroom, h.Bytes))
		return
	}
	r.logger.Warn(messageKubeletNear, zap.Int64(keyHeadroom, h.Bytes), zap.String(keyDetail, h.Detail))
	r.warnOnNode(ReasonKubeletNear, shorten("the kubelet is about to evict pods before evictd: "+h.Detail, messageLimit))
}

// said returns how a finding is said. That the kubelet may act first is no reason to get
// up.
func said(kind kubeletconfig.Kind) (zapcore.Level, string) {
	switch kind {
	case kubeletconfig.KubeletMaybeFirst:
		return zapcore.InfoLevel, messageKubeletMaybe
	case kubeletconfig.BeforeImages:
		return zapcore.WarnLevel, messageBeforeImages
	default:
		return zapcore.WarnLevel, messageKubeletFirst
	}
}

// kubeletThresholds sets the gauges; nil says that the kubelet's configuration is not known.
func (m *metrics) kubeletThresholds(result *kubeletconfig.Result) {
	m.kubeletRead.Set(number(result != nil))
	m.kubeletFirst.Reset()
	if result == nil {
		return
	}
	for _, signal := range result.Compared {
		m.kubeletFirst.WithLabelValues(signal.String()).Set(0)
	}
	for i := range result.Findings {
		if f := &result.Findings[i]; f.Kind == kubeletconfig.KubeletFirst {
			m.kubeletFirst.WithLabelValues(f.Signal.String()).Set(1)
		}
	}
}
