package decide

// Hold is the reason why no pod was evicted although a threshold is met.
type Hold string

// The reasons.
const (
	// HoldNone: nothing held the decision back.
	HoldNone Hold = ""
	// HoldIncompleteReading: a signal of a threshold could not be read.
	HoldIncompleteReading Hold = "IncompleteReading"
	// HoldPodsNotSynced: the pods of the node are not known yet.
	HoldPodsNotSynced Hold = "PodsNotSynced"
	// HoldPodsStale: the watch of the node's pods has been dead for minutes.
	HoldPodsStale Hold = "PodsStale"
	// HoldUsageUnknown: what the pods use could not be read.
	HoldUsageUnknown Hold = "UsageUnknown"
	// HoldStalledWithinOwnLimits: tasks stall, but only those of pods that met limits of their own.
	HoldStalledWithinOwnLimits Hold = "StalledWithinOwnLimits"
	// HoldReclaimInProgress: what is in flight suffices.
	HoldReclaimInProgress Hold = "ReclaimInProgress"
	// HoldAwaitingNewerSample: no sample newer than the last victim's end yet, or than the one by which
	// a pod was chosen that is not listed any more.
	HoldAwaitingNewerSample Hold = "AwaitingNewerSample"
	// HoldRequestInDoubt: the outcome of the last request is unknown, and its pod could not be read
	// since.
	HoldRequestInDoubt Hold = "RequestInDoubt"
	// HoldRecovered: the threshold is reached again, by a second reading or but for its minimum reclaim.
	HoldRecovered Hold = "Recovered"
	// HoldNoCandidates: every pod is protected.
	HoldNoCandidates Hold = "NoCandidates"
	// HoldWithinRequests: the pods that could be evicted use no more than they requested,
	// and the signal does not run out yet.
	HoldWithinRequests Hold = "WithinRequests"
	// HoldBackingOff: every candidate was refused a short while ago.
	HoldBackingOff Hold = "BackingOff"
	// HoldSoftJitter: the first soft eviction of a pressure waits a moment, so that not all
	// nodes evict in the same second.
	HoldSoftJitter Hold = "SoftJitter"
	// HoldLimitReached: the limit of evictions in a time is reached, or the first candidate replaced a victim just now.
	HoldLimitReached Hold = "LimitReached"
	// HoldInsufficientReclaim: all candidates together could not free enough; see shortage.go.
	HoldInsufficientReclaim Hold = "InsufficientReclaim"
	// HoldBudgetUnknown: PodDisruptionBudgets block the candidates, and the status of one of
	// them could not be read.
	HoldBudgetUnknown Hold = "BudgetUnknown"
	// HoldImagesFirst: images that no pod uses cover what is missing, and the kubelet
	// removes them before it evicts pods.
	HoldImagesFirst Hold = "ImagesFirst"
)

// LacksCandidates reports whether no eviction would help: there is no candidate, or all together
// could not free enough.
func (h Hold) LacksCandidates() bool {
	return h == HoldNoCandidates || h == HoldWithinRequests || h == HoldInsufficientReclaim
}

// Holds returns every reason, so that metrics can be created at start.
func Holds() []Hold {
	return []Hold{
		HoldIncompleteReading, HoldPodsNotSynced, HoldPodsStale, HoldUsageUnknown, HoldStalledWithinOwnLimits, HoldReclaimInProgress, HoldAwaitingNewerSample,
		HoldRequestInDoubt, HoldRecovered, HoldNoCandidates, HoldWithinRequests, HoldBackingOff, HoldSoftJitter,
		HoldLimitReached, HoldInsufficientReclaim, HoldBudgetUnknown, HoldImagesFirst,
	}
}
