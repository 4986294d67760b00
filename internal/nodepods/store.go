package nodepods

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// store holds the pods of a node by namespace and name, as client-go's reflector fills it
// ([cache.ReflectorStore]): a pod becomes a small value where it enters, and nothing of the
// API server's object stays. The zero value is empty and not synced.
type store struct {
	mu     sync.RWMutex
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pods == nil {
		s.pods = map[string]*Pod{}
	}
	s.pods[pod.Key()] = pod
	return nil
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
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods, s.synced = pods, true
	return nil
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
