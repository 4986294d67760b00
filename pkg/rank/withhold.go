package rank

import "slices"

// Withhold protects the candidates for which why gives a reason, and may fill in their
// Detail. It is for what is true of the running agent and not of the pods: who was
// refused a short while ago, who came back too often, whose end would not help. That
// must not be known to [Order], whose guarantees hold among all who could go: a tenant
// within its guarantee does not become a candidate because its neighbours are refused
// for the moment.
//
// The others keep their order, and are numbered anew. Where one of several queues stood
// between two candidates and was withheld, no key may put the first before the second:
// each of the two only stood on its side of the third, which their queues see with other
// priorities. Before is KeyNone there.
func (r *Ranking) Withhold(why func(*Entry) Protection) {
	withheld := 0
	for i := range r.Candidates {
		e := &r.Candidates[i]
		if e.Protection = why(e); e.Protection != NotProtected {
			withheld++
		}
	}
	if withheld == 0 {
		return
	}
	kept := make([]Entry, 0, len(r.Candidates)-withheld)
	for i := range r.Candidates {
		e := r.Candidates[i]
		e.Before = KeyNone
		if e.Protection == NotProtected {
			kept = append(kept, e)
			continue
		}
		e.Position = 0
		r.Protected = append(r.Protected, e)
	}
	r.Candidates = kept
	slices.SortFunc(r.Protected, func(a, b Entry) int { return byName(a.Pod, b.Pod) })
	number(r.Candidates, comparator(r.Resource))
}

// Protects reports whether a pod is protected for the reason.
func (r *Ranking) Protects(reason Protection) bool {
	return slices.ContainsFunc(r.Protected, func(e Entry) bool { return e.Protection == reason })
}
