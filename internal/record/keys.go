package record

// The keys of log lines besides those of [Line], by the same names, so that a query written
// for one reads the other. docs/runbook.md says what each means, and a test fails where it
// does not.
const (
	keyAccepted     = "accepted"
	keyAvailable    = "available"
	keyCapacity     = "capacity"
	keyDeadline     = "deadline"
	keyDetail       = "detail"
	keyDryRun       = "dry_run"
	keyDuration     = "duration_seconds"
	keyExpected     = "expected"
	keyExpectedLast = "expected_last"
	keyFiles        = "files"
	keyKind         = "kind"
	keyOverran      = "overran"
	keyReleased     = "released"
	keyRepeats      = "repeats"
	keySignal       = "signal"
	keySince        = "since"
	keySource       = "source"
	keyTaints       = "taints"
	keyUID          = "uid"
	keyUnit         = "unit"
	keyVictim       = "victim"
	keyWindow       = "window_seconds"
	keyTimestamp    = "ts"
	keyLevel        = "level"
	keyConstMessage = "msg"
)

// The constant messages of log lines. What differs is in the fields.
const (
	messageDecision  = "decision"
	messageIntent    = "sending an eviction request"
	messageDelete    = "deleting a pod past its budget"
	messageEscalate  = "asking again with a shorter grace period"
	messageGone      = "victim ended"
	messageStuck     = "victim does not end"
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
