package record

import (
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/wording"
)

// Config notes an attempt to apply a changed configuration file; err is why it
// was refused, nil when it was applied.
func (r *Recorder) Config(err error) {
	r.metrics.reloaded(err == nil)
	if err != nil {
		r.logger.Error(messageRefused, zap.Error(err))
		r.tellRefused("evictd refuses the edit of its configuration, and the one before stays in force: ", err)
		return
	}
	r.logger.Info(messageApplied)
}

// ConfigAtStart notes that the configuration file was refused at the start, and what evictd
// does until it is valid, in one clause.
func (r *Recorder) ConfigAtStart(err error, instead string) {
	r.metrics.reloaded(false)
	r.logger.Error(messageRefusedAtStart, zap.Error(err), zap.String(keyDetail, instead))
	r.tellRefused("evictd refuses its configuration at the start, and "+instead+": ", err)
}

// tellRefused writes the Event where the editor of the configuration sees it: on the node, and on
// evictd's own pod when that is known.
func (r *Recorder) tellRefused(what string, err error) {
	text := shorten(what+wording.OneLine(err.Error()), messageLimit)
	r.warnOnNode(ReasonRefused, text)
	if r.self.UID != "" {
		r.events.Event(podReference(r.self.Namespace, r.self.Name, r.self.UID), corev1.EventTypeWarning, ReasonRefused, text)
	}
}
