package decide

// BestEffort is what came of the question whether a pod may go past its budget.
type BestEffort string

// What may come of it.
const (
	// BestEffortNone: the question did not come up.
	BestEffortNone BestEffort = ""
	// BestEffortDeleted: a pod was deleted, or would have been in a dry run.
	BestEffortDeleted BestEffort = "Deleted"
	// BestEffortRefused: the delete was refused, or nobody heard the answer.
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
