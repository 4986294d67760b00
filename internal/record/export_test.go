package record

// Reasons returns the reasons of every Event.
func Reasons() (all []string) {
	for _, e := range eventTable() {
		all = append(all, e.reason)
	}
	return all
}
