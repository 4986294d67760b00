package nodepods_test

import (
	"flag"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/roundtrip"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/testing/golden"
	"github.com/evictd/evictd/pkg/rank"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// podOf returns the pod that a section of a file has: as YAML, or with a text in every field that a pod can have, now and
// in a later Kubernetes, which is the field's name with Value behind it.
func podOf(t *testing.T, name, written string) *corev1.Pod {
	t.Helper()
	filled, err := roundtrip.CompatibilityTestObject(scheme.Scheme, corev1.SchemeGroupVersion.WithKind("Pod"), nil)
	pod, is := filled.(*corev1.Pod)
	if err != nil || !is {
		t.Fatalf("%T, %v", filled, err)
	}
	if name != "every field" {
		pod = &corev1.Pod{}
	}
	if err := yaml.UnmarshalStrict([]byte(written), pod); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return pod
}

// TestFromAPI: what is kept of each pod of testdata/pods.txt, where it differs from what is kept of an empty one. Of the
// images and all labels only hashes are kept, which differ from process to process.
func TestFromAPI(t *testing.T) {
	t.Parallel()
	empty := reflect.ValueOf(*nodepods.FromAPI(&corev1.Pod{}))
	golden.Sections(t, "testdata/pods.txt", *update, "go test ./internal/nodepods -update", func(name, written string) (kept []string) {
		pod := podOf(t, name, written)
		before, first := pod.DeepCopy(), nodepods.FromAPI(pod)
		// Sums must not leak into the pod's quantities.
		if again := nodepods.FromAPI(pod); !reflect.DeepEqual(first, again) || !apiequality.Semantic.DeepEqual(before, pod) {
			t.Errorf("%s: the pod became\n%v\nand what is kept\n%+v", name, pod, again)
		}
		for _, field := range reflect.VisibleFields(empty.Type()) {
			got, none := reflect.ValueOf(*first).FieldByIndex(field.Index), empty.FieldByIndex(field.Index)
			switch {
			case field.Anonymous || reflect.DeepEqual(got.Interface(), none.Interface()):
			case field.Name == "LabelsHash" || field.Name == "ImageKeys":
				kept = append(kept, field.Name+": "+regexp.MustCompile(`\d+`).ReplaceAllString(fmt.Sprint(got), "#"))
			default:
				kept = append(kept, fmt.Sprintf("%s: %+v", field.Name, reflect.Indirect(got)))
			}
		}
		if kept == nil {
			return []string{"as an empty one"}
		}
		return kept
	})
}

// What each resource requests; one that cannot be requested has no request.
func TestRequestOfAResource(t *testing.T) {
	t.Parallel()
	requests := &nodepods.Pod{MemoryRequest: 2, StorageRequest: 3}
	for resource, want := range map[rank.Resource]int64{rank.Memory: 2, rank.Disk: 3, rank.Inodes: 0, rank.PIDs: 0} {
		if got := requests.Facts(resource).Request; got != want {
			t.Errorf("request for %s = %d, want %d", resource, got, want)
		}
	}
}

// TestNothingProtectedIsACandidate is invariant 2 of the design, as far as the facts go: every marker alone protects, and
// nothing else does. What a tenant can write on a pod that runs does not make it a static pod or its mirror, whose usage is
// looked for under another name: the annotations that only mean something to the kubelet, and owners. The names of the
// sections of testdata/protected.txt say what each pod is.
func TestNothingProtectedIsACandidate(t *testing.T) {
	t.Parallel()
	daemonSets, bare := rank.Rules{DaemonSets: true}, rank.Rules{BarePods: true}
	golden.Sections(t, "testdata/protected.txt", *update, "go test ./internal/nodepods -update", func(name, written string) []string {
		kept := nodepods.FromAPI(podOf(t, name, written))
		kept.Self = kept.UID == "me" // as the store does
		facts := kept.Facts(rank.Memory)
		facts.Sampled = true
		reason := daemonSets.Protects(&facts)
		if is, _, _ := strings.Cut(name, ": "); is != map[bool]string{true: "a candidate", false: "protected"}[reason == rank.NotProtected] {
			t.Errorf("%s: protected as %q", name, reason)
		}
		if reason == rank.NotProtected {
			if facts.Marks != (rank.Marks{}) || kept.CgroupUID != kept.UID {
				t.Errorf("%s: marks %+v, cgroup %q", name, facts.Marks, kept.CgroupUID)
			}
			if bare.Protects(&facts) == rank.ProtectedNoController {
				return []string{"a candidate, bare"}
			}
			return []string{"a candidate"}
		}
		said, marks := []string{"protected: " + string(reason)}, reflect.ValueOf(facts.Marks)
		for i := range marks.NumField() {
			if marks.Field(i).Bool() {
				said = append(said, "mark: "+marks.Type().Field(i).Name)
			}
		}
		return said
	})
}

func TestFaultNegativeGraceOfAPodIsOneSecond(t *testing.T) {
	t.Parallel()
	for given, want := range map[int64]int64{-13835058055: 1, -1: 1, 0: 0, 30: 30} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &given}}
		if got := nodepods.FromAPI(pod).Facts(rank.Memory).GraceSeconds; got != want {
			t.Errorf("grace period %d: %d s, want %d", given, got, want)
		}
	}
}
