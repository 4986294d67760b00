package config

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evictd/evictd/internal/strictyaml"
	"github.com/evictd/evictd/pkg/rank"
)

// The properties of a queue, in YuniKorn's words.
const (
	propertyPolicy = "priority.policy"
	propertyOffset = "priority.offset"
	propertySort   = "application.sort.priority"
)

// anyEnding is what a namespace ends in that stands for all that begin like it.
const anyEnding = "*"

// deepestQueue is how deep queues may be nested: more than any organisation has levels, and few
// enough for a path that can be read.
const deepestQueue = 16

// queues returns the queues of one level, with those below, as package rank takes them, and checks them. Taken
// are the namespaces of which they get each pod, whatever its labels. Above is the namespaces of the nearest queue above that names any; nil where none does.
func (f *faults) queues(path *field.Path, queues []Queue, above []string, level int) (ranked []rank.Queue, taken []string) {
	if level > deepestQueue && len(queues) > 0 {
		f.Invalid(path, field.OmitValueType{}, fmt.Sprintf("is nested deeper than %d queues", deepestQueue))
		return nil, nil
	}
	names := map[string]bool{}
	for i := range queues {
		q, at := &queues[i], path.Index(i)
		f.queueName(at.Child("name"), q.Name, names)
		f.namespacePatterns(at.Child("namespaces"), q.Namespaces, above, taken)
		selected, inherited := f.selector(at.Child("podSelector"), q.PodSelector), above
		one := f.queue(at, q, selected)
		if len(q.Namespaces) > 0 {
			inherited = q.Namespaces
		}
		var takes []string
		if one.Queues, takes = f.queues(at.Child("queues"), q.Queues, inherited, level+1); len(q.Namespaces) > 0 {
			takes = q.Namespaces
		}
		if ranked = append(ranked, one); selected == nil {
			taken = append(taken, takes...)
		}
	}
	return ranked, taken
}

// queue returns one queue without those below, and checks what chooses and ranks its pods. Selected is nil where
// labels do not choose among those of its namespaces. What is not valid means the default.
func (f *faults) queue(path *field.Path, q *Queue, selected func(map[string]string) bool) rank.Queue {
	if len(q.Namespaces) == 0 && selected == nil && len(q.Queues) == 0 {
		f.Add(field.Required(path, "holds no pod: set namespaces or podSelector, or queues below"))
	}
	ranked := rank.Queue{
		Name:             q.Name,
		Holds:            holds(q.Namespaces, selected),
		GuaranteedMemory: f.guaranteed(path.Child("guaranteed"), q.Guaranteed),
	}
	f.properties(path.Child("properties"), q.Properties, &ranked)
	return ranked
}

func (f *faults) queueName(path *field.Path, name string, names map[string]bool) {
	switch {
	case name == "":
		f.Add(field.Required(path, "names the queue in the ranking"))
	case !regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`).MatchString(name):
		f.Invalid(path, name, "must be 1 to 64 letters, digits, - and _")
	case names[name]:
		f.Add(field.Duplicate(path, name))
	}
	names[name] = true
}

// namespacePatterns checks names of namespaces and beginnings of them. Where above is not nil, each
// must be among it, and none may be among those that are taken.
func (f *faults) namespacePatterns(path *field.Path, namespaces, above, taken []string) {
	for i, pattern := range namespaces {
		at, name := path.Index(i), strings.TrimSuffix(pattern, anyEnding)
		wrong := validation.IsDNS1123Label(strings.TrimSuffix(name, "-"))
		covering := func(outer string) bool { return covers(outer, pattern) }
		switch {
		case strings.Contains(name, anyEnding):
			f.Invalid(at, pattern, "may have * at its end only")
		case pattern != anyEnding && len(wrong) > 0:
			f.Invalid(at, pattern, "must be the name of a namespace, or the beginning of one and *: "+strings.Join(wrong, "; "))
		case above != nil && !slices.ContainsFunc(above, covering):
			f.Invalid(at, pattern, "is not among the namespaces of the queue above, so no pod could belong here")
		case slices.ContainsFunc(taken, covering):
			f.Invalid(at, pattern, "is among the namespaces of a queue before this one, so no pod could belong here")
		}
	}
}

// covers reports whether every namespace of the second pattern is one of the first.
func covers(outer, inner string) bool {
	beginning, wild := strings.CutSuffix(outer, anyEnding)
	if !wild {
		return outer == inner
	}
	return strings.HasPrefix(strings.TrimSuffix(inner, anyEnding), beginning)
}

// guaranteed returns the bytes of memory that a queue is guaranteed.
func (f *faults) guaranteed(path *field.Path, amounts map[string]string) (memory int64) {
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		at := path.Key(name)
		if name != "memory" {
			strictyaml.OneOf(&f.Faults, at, name, "memory")
			continue
		}
		var err error
		switch memory, err = parseAmount(amounts[name]); {
		case err != nil:
			f.Invalid(at, amounts[name], `must be an amount of bytes, such as "8Gi"`)
		case memory == 0:
			f.Invalid(at, amounts[name], "must be above 0: remove it to guarantee nothing")
		}
	}
	return memory
}

// properties writes a queue's properties to what is ranked. Case does not matter, as in YuniKorn.
func (f *faults) properties(path *field.Path, properties map[string]string, ranked *rank.Queue) {
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		at, text := path.Key(name), strings.ToLower(properties[name])
		switch name {
		case propertyPolicy:
			strictyaml.OneOf(&f.Faults, at, text, "default", "fence")
			ranked.Fence = text == "fence"
		case propertySort:
			strictyaml.OneOf(&f.Faults, at, text, "enabled", "disabled")
			ranked.IgnorePriority = text == "disabled"
		case propertyOffset:
			offset, err := strconv.ParseInt(text, 10, 32)
			if err != nil {
				f.Invalid(at, text, fmt.Sprintf("must be a whole number from %d to %d", math.MinInt32, math.MaxInt32))
				continue
			}
			ranked.Offset = int32(offset)
		default:
			strictyaml.OneOf(&f.Faults, at, name, propertySort, propertyOffset, propertyPolicy)
		}
	}
}
