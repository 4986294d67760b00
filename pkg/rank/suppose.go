package rank

// Suppose returns the ranking as it would be if the pod of that UID were a candidate despite
// any protection, and nothing else changed. A pod whose usage is unknown stays protected:
// its position cannot be determined.
func Suppose(resource Resource, pods []Pod, rules Rules, uid string) Ranking {
	entries := make([]Entry, len(pods))
	for i := range pods {
		e := newEntry(resource, &pods[i], &rules)
		if pods[i].UID == uid && pods[i].Sampled {
			e.Protection, e.supposed = NotProtected, true
		}
		entries[i] = e
	}
	return order(resource, entries, &rules)
}
