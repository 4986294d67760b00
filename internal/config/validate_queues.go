package config

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The properties of a queue, in YuniKorn's words.
const (
	propertyPolicy = "priority.policy"
	propertyOffset = "priority.offset"
	propertySort   = "application.sort.priority"
)

// Values of the properties; case does not matter, as in YuniKorn.
const (
	policyDefault = "default"
	policyFence   = "fence"
	sortEnabled   = "enabled"
	sortDisabled  = "disabled"
)

// anyEnding is what a namespace ends in that stands for all that begin like it.
const anyEnding = "*"

// queues checks the tree. A tree in a file can have no cycles.
func (v *validator) queues() {
	path := field.NewPath("queues")
	v.siblings(path, v.c.Queues, nil)
	var claims []claim
	v.claims(path, v.c.Queues, &claims)
	v.overlaps(claims)
}

// deepestQueue is how deep queues may be nested: more than any organisation has levels, and few
// enough for a path that can be read.
const deepestQueue = 16

// tooDeep returns a fault at the first queue that is nested too deep, nil where there is
// none. It is looked for before anything else is: a path of thousands of queues in each
// fault would take minutes to write.
func tooDeep(path *field.Path, queues any, level int) *field.Error {
	list, _ := queues.([]any)
	for i, item := range list {
		if level > deepestQueue {
			return field.Invalid(path.Index(i), field.OmitValueType{}, fmt.Sprintf("is nested deeper than %d queues", deepestQueue))
		}
		queue, _ := item.(map[string]any)
		if fault := tooDeep(path.Index(i).Child("queues"), queue["queues"], level+1); fault != nil {
			return fault
		}
	}
	return nil
}

// siblings checks the queues of one level and those below. The parent's namespaces
// are those of the nearest queue above that names any; nil where none does.
func (v *validator) siblings(path *field.Path, queues []Queue, parents []string) {
	seen := map[string]bool{}
	for i := range queues {
		q, at := &queues[i], path.Index(i)
		if v.broken[at.String()] {
			continue // it is there to keep the places of the others
		}
		v.queueName(at.Child("name"), q.Name, seen)
		v.namespacePatterns(at.Child("namespaces"), q.Namespaces, parents)
		if q.PodSelector != nil {
			v.labelSelector(at.Child("podSelector"), q.PodSelector)
		}
		if len(q.Namespaces) == 0 && !q.selects() && len(q.Queues) == 0 && !v.halfRead(at) {
			v.add(field.Required(at, "holds no pod: set namespaces or podSelector, or queues below"))
		}
		v.guaranteed(at.Child("guaranteed"), q.Guaranteed)
		v.properties(at.Child("properties"), q.Properties)
		inherited := parents
		if len(q.Namespaces) > 0 {
			inherited = q.Namespaces
		}
		v.siblings(at.Child("queues"), q.Queues, inherited)
	}
}

// halfRead reports whether a queue has a selector that could not be read. Then that is the fault,
// and not a missing selector.
func (v *validator) halfRead(queue *field.Path) bool {
	for path := range v.broken {
		for _, name := range []string{"namespaces", "podSelector", "queues"} {
			if strings.HasPrefix(path, queue.Child(name).String()) {
				return true
			}
		}
	}
	return false
}

// selects reports whether the queue requires labels.
func (q *Queue) selects() bool {
	return q.PodSelector != nil && len(q.PodSelector.MatchLabels)+len(q.PodSelector.MatchExpressions) > 0
}

func (v *validator) queueName(path *field.Path, name string, seen map[string]bool) {
	switch {
	case name == "":
		v.add(field.Required(path, "names the queue in the ranking"))
	case !regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`).MatchString(name):
		v.add(field.Invalid(path, name, "must be 1 to 64 letters, digits, - and _"))
	case seen[name]:
		v.add(field.Duplicate(path, name))
	}
	seen[name] = true
}

// namespacePatterns checks names of namespaces and beginnings of them. Where parents is
// not nil, each must be among them.
func (v *validator) namespacePatterns(path *field.Path, namespaces, parents []string) {
	for i, pattern := range namespaces {
		at := path.Index(i)
		name := strings.TrimSuffix(pattern, anyEnding)
		faults := validation.IsDNS1123Label(strings.TrimSuffix(name, "-"))
		switch {
		case strings.Contains(name, anyEnding):
			v.add(field.Invalid(at, pattern, "may have * at its end only"))
		case pattern != anyEnding && len(faults) > 0:
			v.add(field.Invalid(at, pattern, "must be the name of a namespace, or the beginning of one and *: "+strings.Join(faults, "; ")))
		case parents != nil && !slices.ContainsFunc(parents, func(parent string) bool { return covers(parent, pattern) }):
			v.add(field.Invalid(at, pattern, "is not among the namespaces of the queue above, so no pod could belong here"))
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

func (v *validator) guaranteed(path *field.Path, amounts map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		at := path.Key(name)
		if name != "memory" {
			v.add(field.NotSupported(at, name, []string{"memory"}))
			continue
		}
		switch amount, err := ParseAmount(amounts[name]); {
		case err != nil:
			v.add(field.Invalid(at, amounts[name], `must be an amount of bytes, such as "8Gi"`))
		case amount == 0:
			v.add(field.Invalid(at, amounts[name], "must be above 0: remove it to guarantee nothing"))
		}
	}
}

func (v *validator) properties(path *field.Path, properties map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		at, text := path.Key(name), properties[name]
		switch name {
		case propertyPolicy:
			v.oneOf(at, text, policyDefault, policyFence)
		case propertySort:
			v.oneOf(at, text, sortEnabled, sortDisabled)
		case propertyOffset:
			if _, err := strconv.ParseInt(text, 10, 32); err != nil {
				v.add(field.Invalid(at, text, fmt.Sprintf("must be a whole number from %d to %d", math.MinInt32, math.MaxInt32)))
			}
		default:
			v.add(field.NotSupported(at, name, []string{propertySort, propertyOffset, propertyPolicy}))
		}
	}
}

// oneOf refuses what is none of the values; case does not matter.
func (v *validator) oneOf(path *field.Path, text string, values ...string) {
	if !slices.Contains(values, strings.ToLower(text)) {
		v.add(field.NotSupported(path, text, values))
	}
}

// claim is a namespace pattern of a queue. Queues above and below each other may
// claim the same.
type claim struct {
	path    *field.Path
	queue   *field.Path
	pattern string
	selects bool
}

func (v *validator) claims(path *field.Path, queues []Queue, all *[]claim) {
	for i := range queues {
		q, at := &queues[i], path.Index(i)
		for j, pattern := range q.Namespaces {
			*all = append(*all, claim{path: at.Child("namespaces").Index(j), queue: at, pattern: pattern, selects: q.selects()})
		}
		v.claims(at.Child("queues"), q.Queues, all)
	}
}

// overlaps refuses a namespace that two queues claim, unless both choose among its
// pods by labels.
func (v *validator) overlaps(claims []claim) {
	for i, later := range claims {
		for _, earlier := range claims[:i] {
			apart := !covers(earlier.pattern, later.pattern) && !covers(later.pattern, earlier.pattern)
			if apart || earlier.selects && later.selects || related(earlier.queue, later.queue) {
				continue
			}
			v.add(field.Invalid(later.path, later.pattern,
				fmt.Sprintf("is in %s too: a namespace belongs to one queue, unless both choose its pods by podSelector", earlier.path)))
			break
		}
	}
}

// related reports whether one queue is the other or above it.
func related(a, b *field.Path) bool {
	x, y := a.String(), b.String()
	return x == y || strings.HasPrefix(x, y+".") || strings.HasPrefix(y, x+".")
}

// labelSelector checks a selector of labels.
func (v *validator) labelSelector(path *field.Path, selector *metav1.LabelSelector) {
	faults := metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)
	v.faults = append(v.faults, faults...)
	if _, err := metav1.LabelSelectorAsSelector(selector); err != nil && len(faults) == 0 {
		v.add(field.Invalid(path, field.OmitValueType{}, err.Error()))
	}
}
