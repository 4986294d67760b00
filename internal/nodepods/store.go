package nodepods

import (
	"fmt"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

// store holds the pods of a node as one reflector delivers them ([cache.ReflectorStore]). The API
// server's object ends where it is received, and where a list is streamed too
// ([cache.TransformingStore]): a tenant's pod may have more than a MiB of labels, and as much of
// managed fields.
type store struct {
	cache.Store // of *Pod

	of     *Pods
	keys   sets.Set[string] // of the labels that are kept
	synced atomic.Bool      // it has taken a list
}

// newStore returns an empty store.
func (p *Pods) newStore(keys []string) *store {
	return &store{Store: cache.NewStore(keyOf), of: p, keys: sets.New(keys...)}
}

// keyOf returns namespace/name of a [Pod] or of the API server's.
func keyOf(object any) (string, error) {
	if pod, is := object.(*Pod); is {
		return pod.Key(), nil
	}
	return cache.MetaNamespaceKeyFunc(object)
}

// Transformer returns what makes a [Pod] of the API server's. The reflector uses it while a list is
// streamed, so that [store.Replace] gets either.
func (s *store) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return s.keep(object) }
}

// keep returns what is kept of a pod.
func (s *store) keep(object any) (*Pod, error) {
	switch object := object.(type) {
	case *Pod:
		return object, nil
	case *corev1.Pod:
		kept := FromAPI(object)
		kept.Self = kept.UID == s.of.options.Self
		kept.Labels = map[string]string{}
		for key := range s.keys {
			if value, has := object.Labels[key]; has {
				kept.Labels[key] = value
			}
		}
		return kept, nil
	default:
		return nil, fmt.Errorf("storing a pod: the API server sent a %T", object)
	}
}

// Add takes a pod that is new.
func (s *store) Add(object any) error { return s.Update(object) }

// Update takes a pod that has changed.
func (s *store) Update(object any) error {
	s.of.note()
	pod, err := s.keep(object)
	if err != nil {
		return err
	}
	s.reportKills(pod)
	return s.Store.Update(pod)
}

// Delete forgets a pod.
func (s *store) Delete(object any) error {
	s.of.note()
	return s.Store.Delete(object)
}

// Replace takes the whole list of the node's pods.
func (s *store) Replace(objects []any, version string) error {
	s.of.note()
	for i := range objects {
		pod, err := s.keep(objects[i])
		if err != nil {
			return err
		}
		s.reportKills(pod)
		objects[i] = pod
	}
	if err := s.Store.Replace(objects, version); err != nil {
		return err
	}
	s.synced.Store(true)
	return nil
}

// Bookmark notes that the watch is alive, and that bookmarks come. The one that ends a streamed list
// is not passed on here.
func (s *store) Bookmark(string) error {
	s.of.note()
	s.of.bookmarked.Store(true)
	return nil
}

// reportKills reports the kills that a pod's status has and the one in the store does not. None is
// reported of the first list.
func (s *store) reportKills(pod *Pod) {
	if s.of.options.OnOOMKilled == nil || !s.synced.Load() {
		return
	}
	object, _, _ := s.GetByKey(pod.Key()) // nil where there is none
	before, is := object.(*Pod)
	for _, kill := range pod.OOMKilled {
		same := func(known OOMKilled) bool { return known.Container == kill.Container && known.ID == kill.ID }
		if !is || before.UID != pod.UID || !slices.ContainsFunc(before.OOMKilled, same) {
			s.of.options.OnOOMKilled(pod, kill)
		}
	}
}
