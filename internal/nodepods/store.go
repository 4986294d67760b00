package nodepods

import (
	"fmt"
	"slices"
	"sync"
)

// store holds the pods of a node by namespace and name, as client-go's reflector fills it
// ([cache.ReflectorStore]). The zero value is empty and not synced.
type store struct {
	killed func(*Pod, OOMKilled) // may be nil

	mu     sync.RWMutex // guards all below
	pods   map[string]*Pod
	synced bool
	keys   *labelKeys
}

// labelKeys returns which labels are kept of a pod that is received now.
func (s *store) labelKeys() *labelKeys {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.keys
}

// keepLabels changes that, and reports whether the pods must be listed anew.
func (s *store) keepLabels(keys []string) (anew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	anew = s.keys != nil && slices.ContainsFunc(keys, func(key string) bool { return !s.keys.set[key] })
	if anew {
		s.keys, s.synced = keysOf(keys), false
	}
	return anew
}

// Add takes a pod that is new.
func (s *store) Add(object any) error { return s.put(object) }

// Update takes a pod that has changed.
func (s *store) Update(object any) error { return s.put(object) }

func (s *store) put(object any) error {
	e, err := entryOf(object)
	if err != nil {
		return err
	}
	if before, synced := s.set(e.pod); synced {
		s.tellKills(before, e.pod)
	}
	return nil
}

// set returns what was there under the pod's name; nil where nothing was.
func (s *store) set(pod *Pod) (before *Pod, synced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pods == nil {
		s.pods = map[string]*Pod{}
	}
	before = s.pods[pod.Key()]
	s.pods[pod.Key()] = pod
	return before, s.synced
}

// Delete forgets a pod.
func (s *store) Delete(object any) error {
	e, err := entryOf(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, e.pod.Key())
	return nil
}

// Replace takes the whole list of the node's pods.
func (s *store) Replace(objects []any, _ string) error {
	pods, keys, complete := make(map[string]*Pod, len(objects)), s.labelKeys(), true
	for _, object := range objects {
		e, err := entryOf(object)
		if err != nil {
			return err
		}
		pods[e.pod.Key()] = e.pod
		complete = complete && e.kept == keys
	}
	before, synced := s.replace(pods, keys, complete)
	for key, pod := range pods {
		if synced {
			s.tellKills(before[key], pod)
		}
	}
	return nil
}

// replace takes a list, of which each pod was received by the keys where it is complete. One that was
// not lacks labels that are needed by now.
func (s *store) replace(pods map[string]*Pod, keys *labelKeys, complete bool) (before map[string]*Pod, synced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, synced = s.pods, s.synced
	s.pods, s.synced = pods, complete && keys == s.keys
	return before, synced
}

// tellKills reports the kills that a pod's status has and the previous status did not. Before is
// nil when there was no pod of that name.
func (s *store) tellKills(before, pod *Pod) {
	if s.killed == nil {
		return
	}
	var known []OOMKilled
	if before != nil && before.UID == pod.UID {
		known = before.OOMKilled
	}
	for _, kill := range pod.OOMKilled {
		if !slices.ContainsFunc(known, kill.same) {
			s.killed(pod, kill)
		}
	}
}

// Resync does nothing: nothing is derived from the store.
func (s *store) Resync() error { return nil }

func (s *store) hasSynced() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.synced
}

func (s *store) list() []*Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	pods := make([]*Pod, 0, len(s.pods))
	for _, pod := range s.pods {
		pods = append(pods, pod)
	}
	return pods
}

func (s *store) get(namespace, name string) (*Pod, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	pod, known := s.pods[namespace+"/"+name]
	return pod, known
}

func entryOf(object any) (*entry, error) {
	e, is := object.(*entry)
	if !is {
		return nil, fmt.Errorf("storing a pod: the API server sent a %T", object)
	}
	return e, nil
}
