package decide

// BestEffort is the result of the check whether a pod may bypass its budget.
type BestEffort string

// What may come of it.
const (
	// BestEffortNone: the question did not come up.
	BestEffortNone BestEffort = ""
	// BestEffortDeleted: a pod was deleted, or would have been in a dry run.
	BestEffortDeleted BestEffort = "Deleted"
	// BestEffortRefused: the delete was refused, or its outcome is unknown.
	BestEffortRefused BestEffort = "Refused"
	// BestEffortBudgetUnknown: a budget could not be read.
	BestEffortBudgetUnknown BestEffort = "BudgetUnknown"
	// BestEffortInsufficientReclaim: all that budgets keep could not return what is missing.
	BestEffortInsufficientReclaim BestEffort = "InsufficientReclaim"
)

// BestEfforts returns all but BestEffortNone, so that metrics can be created at start.
func BestEfforts() []BestEffort {
	return []BestEffort{BestEffortDeleted, BestEffortRefused, BestEffortBudgetUnknown, BestEffortInsufficientReclaim}
}
