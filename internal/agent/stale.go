package agent

// podsStale returns why the list of pods cannot be relied on any more; nil while it can. From
// such a list a pod that was made since is no candidate, and its cgroup is taken for what a
// pod has left that the API server has forgotten.
func (a *Agent) podsStale() error {
	if a.options.PodsStale == nil {
		return nil
	}
	return a.options.PodsStale()
}
