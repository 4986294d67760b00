package agent

// releaseSlots gives back the slots of victims that have ended, and keeps those of victims
// that are leaving. One that is booked may run although the API server has forgotten it;
// one that is listed may stay, because its request was not heard.
func (a *Agent) releaseSlots() {
	if a.options.Permits == nil || !a.options.Pods.Synced() {
		return
	}
	a.options.Permits.ReleaseEnded(
		func(uid string) bool { return a.victims.Booked(uid) || a.listed()[uid] },
		func(uid string) bool { return a.victims.Booked(uid) || a.terminating(uid) },
	)
}
