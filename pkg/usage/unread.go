package usage

import "fmt"

// UnreadError says which pods exist but could not be read. The readings of the others are
// returned with it.
type UnreadError struct {
	// Pods are the UIDs of pods whose cgroups exist but could not be read; nil when there
	// are none.
	Pods []string
	// ListingFailed says that a directory of pods could not be listed: pods that were
	// created since the previous listing are missing, also from Pods.
	ListingFailed bool
	// Faults has one fault for each of Pods and for each such directory, with the name of
	// its file.
	Faults []error
}

// pod records a pod that could not be read.
func (u *UnreadError) pod(uid string, fault error) {
	u.Pods, u.Faults = append(u.Pods, uid), append(u.Faults, fault)
}

// listing records a directory that could not be listed.
func (u *UnreadError) listing(fault error) {
	u.ListingFailed = true
	u.Faults = append(u.Faults, fmt.Errorf("listing the pods: %w", fault))
}

// orNil returns nil where everything was read, and otherwise a copy: so only a fault allocates.
func (u *UnreadError) orNil() error {
	if len(u.Faults) == 0 {
		return nil
	}
	faults := *u
	return &faults
}

// Error returns the first fault and the number of all.
func (u *UnreadError) Error() string {
	if len(u.Faults) == 1 {
		return u.Faults[0].Error()
	}
	return fmt.Sprintf("%s (and %d more that could not be read)", u.Faults[0], len(u.Faults)-1)
}

// Unwrap returns every fault, for errors.Is.
func (u *UnreadError) Unwrap() []error { return u.Faults }
