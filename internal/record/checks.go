package record

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
