package measure

import (
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
)

// By how much a pod has grown says whether it used up what is short. That takes two readings which are growthOver apart or
// more, and growthMost at most; what it grew in a longer time than growthSpan, that of a forecast, counts in part.
const (
	growthOver = 5 * time.Second
	growthSpan = 10 * time.Second
	growthMost = time.Minute
)

// earlier keeps what was read at two times, the older first. The zero value has none.
type earlier[T any] struct {
	at   [2]time.Time
	read [2]T
}

// note keeps what was read at a time, unless the last was just before.
func (e *earlier[T]) note(at time.Time, read func() T) {
	if at.Sub(e.at[1]) >= growthOver {
		e.at, e.read = [2]time.Time{e.at[1], at}, [2]T{e.read[1], read()}
	}
}

// before returns what was read growthOver ago or earlier, and which part of the growth since then counts. The zero value is
// not known.
func (e *earlier[T]) before(now time.Time) (read T, part float64) {
	of := 1
	if now.Sub(e.at[of]) < growthOver {
		of = 0
	}
	age := now.Sub(e.at[of])
	if age > growthMost {
		return read, 0
	}
	return e.read[of], min(1, growthSpan.Seconds()/age.Seconds())
}

// addGrowth adds by how much each pod has grown since an earlier amount, by its cgroup, where that is known.
func addGrowth(uses *decide.Uses, pods []*nodepods.Pod, part float64, earlier func(cgroupUID string) (amount int64, known bool)) {
	for _, pod := range pods {
		use, is := uses.ByUID[pod.UID]
		if amount, known := earlier(pod.CgroupUID); is && known {
			use.Grown = int64(part * float64(use.Value-amount))
			uses.ByUID[pod.UID] = use
		}
	}
}
