package rank

// Withhold protects the candidates for which why returns a reason; why may also fill in
// their Detail. It is for states of the running agent and not of the pods: a pod was refused
// a short while ago. [Order] must not know these states, because its guarantees hold among all pods
// that may be evicted: a tenant within its guarantee does not become a candidate because its
// neighbors are refused for the moment.
//
// The others keep their order and get new positions. Where one of several queues stood
// between two candidates and was withheld, there may be no key that puts the first before
// the second: each was only compared with the third, in queues that see other priorities.
// Before is KeyNone there.
func (r *Ranking) Withhold(why func(*Entry) Protection) {
	kept := make([]Entry, 0, len(r.Candidates))
	for i := range r.Candidates {
		e := &r.Candidates[i]
		if e.Protection = why(e); e.Protection == NotProtected {
			kept = append(kept, *e)
			continue
		}
		e.Position, e.Before = 0, KeyNone
		r.Protected = append(r.Protected, *e)
	}
	r.Candidates = kept
	r.finish()
}
