package record

// The keys of log lines and of /debug/decisions: one list, so that a query
// written for one reads the other. docs/runbook.md says what each means, and a
// test fails where it does not.
const (
	keyAccepted     = "accepted"
	keyAttempts     = "attempts"
	keyAvailable    = "available"
	keyBestEffort   = "best_effort"
	keyBreakdown    = "breakdown"
	keyBudget       = "budget"
	keyBudgetHas    = "budget_has"
	keyBudgetWants  = "budget_wants"
	keyCapacity     = "capacity"
	keyDeadline     = "deadline"
	keyDeficit      = "deficit"
	keyDetail       = "detail"
	keyDryRun       = "dry_run"
	keyDuration     = "duration_seconds"
	keyEffective    = "effective_priority"
	keyError        = "error"
	keyEscalates    = "escalates"
	keyExhausted    = "exhausted_seconds"
	keyExpected     = "expected"
	keyExpectedLast = "expected_last"
	keyFiles        = "files"
	keyForecast     = "forecast_seconds"
	keyGraceCut     = "grace_cut"
	keyGrace        = "grace_seconds"
	keyHeldOff      = "held_off"
	keyHold         = "hold"
	keyID           = "id"
	keyKind         = "kind"
	keyLine         = "line"
	keyMessage      = "message"
	keyNotReliedOn  = "not_relied_on"
	keyNotes        = "notes"
	keyOf           = "of"
	keyOnTheirWay   = "on_their_way"
	keyOutcome      = "outcome"
	keyOver         = "over"
	keyOverran      = "overran"
	keyOwner        = "owner"
	keyPod          = "pod"
	keyPriority     = "priority"
	keyProtected    = "protected"
	keyQueue        = "queue"
	keyRank         = "rank"
	keyReaction     = "reaction_seconds"
	keyReleased     = "released"
	keyRepeats      = "repeats"
	keyRequest      = "request"
	keyRetryAfter   = "retry_after_seconds"
	keyRunnersUp    = "runners_up"
	keySignal       = "signal"
	keySince        = "since"
	keySource       = "source"
	keyTaints       = "taints"
	keyTarget       = "target"
	keyThreshold    = "threshold"
	keyTime         = "time"
	keyTook         = "took_seconds"
	keyUID          = "uid"
	keyUnit         = "unit"
	keyUsage        = "usage"
	keyVerb         = "verb"
	keyVictim       = "victim"
	keyWhy          = "why"
	keyWindow       = "window_seconds"
	keyTimestamp    = "ts"
	keyLevel        = "level"
	keyConstMessage = "msg"
)

// Keys returns every key, in alphabetical order.
func Keys() []string {
	return []string{
		keyAccepted, keyAttempts, keyAvailable, keyBestEffort, keyBreakdown, keyBudget, keyBudgetHas,
		keyBudgetWants, keyCapacity, keyDeadline, keyDeficit, keyDetail, keyDryRun, keyDuration, keyEffective,
		keyError, keyEscalates, keyExhausted, keyExpected, keyExpectedLast, keyFiles, keyForecast, keyGraceCut,
		keyGrace, keyHeldOff, keyHold, keyID, keyKind, keyLevel, keyLine, keyMessage, keyConstMessage,
		keyNotReliedOn, keyNotes, keyOf, keyOnTheirWay, keyOutcome, keyOver, keyOverran, keyOwner, keyPod,
		keyPriority, keyProtected, keyQueue, keyRank, keyReaction, keyReleased, keyRepeats, keyRequest,
		keyRetryAfter, keyRunnersUp, keySignal, keySince, keySource, keyTaints, keyTarget, keyThreshold, keyTime,
		keyTook, keyTimestamp, keyUID, keyUnit, keyUsage, keyVerb, keyVictim, keyWhy, keyWindow,
	}
}

// The constant messages of log lines. What differs is in the fields.
const (
	messageDecision  = "decision"
	messageIntent    = "sending an eviction request"
	messageDelete    = "deleting a pod past its budget"
	messageEscalate  = "asking again with a shorter grace period"
	messageGone      = "victim ended"
	messageBegan     = "pressure began"
	messageEnded     = "pressure ended"
	messageUnknown   = "signal is unknown"
	messageKnown     = "signal is known again"
	messageAbsent    = "signal became absent"
	messageReadError = "reading failed"
	messageWatch     = "watching the node's pods failed"
	messageWakeups   = "the kernel wakes the loop"
	messageNoWakeups = "the kernel does not wake the loop, pacing goes on alone"
	messageApplied   = "configuration applied"
	messageRefused   = "configuration refused, the old one stays in force"
	messageTainted   = "tainted the node"
	messageUntainted = "removed the node's taint"
	messageTaint     = "tainting the node failed"
	messageSlot      = "keeping or giving back a slot failed"

	messageKubeletFirst = "the kubelet would evict before evictd"
	messageKubeletMaybe = "the kubelet may evict before evictd"
	messageBeforeImages = "evictd would evict before the kubelet deletes unused images"
	messageKubeletEntry = "an entry of the kubelet's configuration is not understood"
	messageNoTreaty     = "the kubelet's thresholds are not known and not compared with evictd's"
)
