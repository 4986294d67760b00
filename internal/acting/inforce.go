package acting

// InForce is whether an agent acts, as its loop has it in force: of one moment, and by the
// configuration in force. The zero value acts and asks nothing. It belongs to one goroutine.
type InForce struct {
	State

	of func() State
}

// By returns an InForce that asks of, which returns whether the agent acts now.
func By(of func() State) InForce { return InForce{of: of} }

// Asks reports whether there is something to ask.
func (f *InForce) Asks() bool { return f.of != nil }

// Ask asks anew, and reports whether the answer is another.
func (f *InForce) Ask() (changed bool) {
	if f.of == nil {
		return false
	}
	before := f.State
	f.State = f.of()
	return f.State != before
}
