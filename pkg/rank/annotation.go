package rank

import "strconv"

// Annotation is the annotation that protects a pod from eviction. It counts only in the
// namespaces that an administrator names, because every account that may write a pod can set it.
const Annotation = "evictd.dev/evict"

// Never is the only valid value of [Annotation].
const Never = "never"

// counts reports whether the annotation counts in a namespace.
func (r *Rules) counts(namespace string) bool { return r.Annotated != nil && r.Annotated(namespace) }

// ignored says why the annotation of a pod that it does not protect is ignored; "" for a pod
// without one.
func (r *Rules) ignored(p *Pod) string {
	const its = "its annotation " + Annotation
	switch {
	case p.Evict == "":
		return ""
	case !r.counts(p.Namespace):
		return its + " counts for nothing here: protect.annotationNamespaces does not name its namespace"
	case p.Evict != Never:
		return its + " counts for nothing: its value is " + strconv.Quote(p.Evict) + ", and only " + Never + " means anything"
	default:
		return ""
	}
}
