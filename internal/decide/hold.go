package decide

// Hold is the reason why nobody was evicted although a threshold holds.
type Hold string

// The reasons.
const (
	// HoldNone: nothing held the decision back.
	HoldNone Hold = ""
	// HoldIncomplete: a signal that a threshold asks for could not be read.
	HoldIncomplete Hold = "IncompleteReading"
	// HoldPodsUnsynced: the pods of the node are not known yet.
	HoldPodsUnsynced Hold = "PodsNotSynced"
	// HoldPodsStale: the watch of the node's pods has been dead for minutes.
	HoldPodsStale Hold = "PodsStale"
	// HoldUsageUnknown: what the pods use could not be read.
	HoldUsageUnknown Hold = "UsageUnknown"
	// HoldOwnLimits: tasks stall, but only those of pods that met limits of their own.
	HoldOwnLimits Hold = "StalledWithinOwnLimits"
	// HoldOnItsWay: what is on its way out suffices.
	HoldOnItsWay Hold = "ReclaimInProgress"
	// HoldSettling: no sample newer than the last victim's end yet, or than the one by which
	// a pod was chosen that is not listed any more.
	HoldSettling Hold = "AwaitingNewerSample"
	// HoldSettleWindow: space may be coming back by itself.
	HoldSettleWindow Hold = "StabilizationWindow"
	// HoldUnheard: the answer to the last request was not heard, and what became of
	// its pod could not be read since.
	HoldUnheard Hold = "RequestInDoubt"
	// HoldRecovered: a second look found the pressure gone.
	HoldRecovered Hold = "Recovered"
	// HoldNoCandidates: every pod is protected.
	HoldNoCandidates Hold = "NoCandidates"
	// HoldWithinRequests: the pods that could be evicted use no more than they requested,
	// and the signal does not run out yet.
	HoldWithinRequests Hold = "WithinRequests"
	// HoldBackingOff: every candidate was refused a short while ago.
	HoldBackingOff Hold = "BackingOff"
	// HoldOwners: every candidate that was not refused is of an owner whose pods came
	// back too often.
	HoldOwners Hold = "OwnerBackOff"
	// HoldJitter: the first soft eviction of a pressure waits a moment, so that not all
	// nodes evict in the same second.
	HoldJitter Hold = "SoftJitter"
	// HoldLimited: the limit of evictions in a time is reached.
	HoldLimited Hold = "LimitReached"
	// HoldNoSlot: the workloads of all candidates have no free permit, or it is not known.
	HoldNoSlot Hold = "NoPermit"
	// HoldUseless: all candidates together could not give back enough, see useless.go.
	HoldUseless Hold = "InsufficientReclaim"
	// HoldBudgetUnknown: budgets keep the candidates, and what one of them wants and has
	// could not be read.
	HoldBudgetUnknown Hold = "BudgetUnknown"
	// HoldImagesFirst: images that no pod uses cover what is missing, and the kubelet
	// removes them before it evicts pods.
	HoldImagesFirst Hold = "ImagesFirst"
)

// LacksCandidates reports whether no eviction would help: there is no candidate, or all together
// could not give back enough.
func (h Hold) LacksCandidates() bool {
	return h == HoldNoCandidates || h == HoldWithinRequests || h == HoldUseless
}

// Holds returns every reason, so that metrics can be created at start.
func Holds() []Hold {
	return []Hold{
		HoldIncomplete, HoldPodsUnsynced, HoldPodsStale, HoldUsageUnknown, HoldOwnLimits, HoldOnItsWay, HoldSettling,
		HoldSettleWindow, HoldUnheard, HoldRecovered, HoldNoCandidates, HoldWithinRequests, HoldBackingOff, HoldOwners, HoldJitter,
		HoldLimited, HoldNoSlot, HoldUseless, HoldBudgetUnknown, HoldImagesFirst,
	}
}
