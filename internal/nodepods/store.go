package nodepods

import (
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// store holds the pods of a node by namespace and name, as client-go's reflector fills it
// ([cache.ReflectorStore]): a pod becomes a small value where it enters, and nothing of the
// API server's object stays. The zero value is empty and not synced.
type store struct {
	killed func(*Pod, OOMKilled) // may be nil

	mu     sync.RWMutex // guards all below
	pods   map[string]*Pod
	synced bool
}

// Add takes a pod that is new.
func (s *store) Add(object any) error { return s.put(object) }

// Update takes a pod that has changed.
func (s *store) Update(object any) error { return s.put(object) }

func (s *store) put(object any) error {
	pod, err := podOf(object)
	if err != nil {
		return err
	}
	if before, synced := s.set(pod); synced {
		s.tellKills(before, pod)
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
	pod, err := podOf(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, pod.Key())
	return nil
}

// Replace takes the whole list of the node's pods.
func (s *store) Replace(objects []any, _ string) error {
	pods := make(map[string]*Pod, len(objects))
	for _, object := range objects {
		pod, err := podOf(object)
		if err != nil {
			return err
		}
		pods[pod.Key()] = pod
	}
	before, synced := s.replace(pods)
	for key, pod := range pods {
		if synced {
			s.tellKills(before[key], pod)
		}
	}
	return nil
}

func (s *store) replace(pods map[string]*Pod) (before map[string]*Pod, synced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, synced = s.pods, s.synced
	s.pods, s.synced = pods, true
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

func podOf(object any) (*Pod, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("storing a pod: the API server sent a %T", object)
	}
	return FromAPI(pod), nil
}
