// Package scenario reads scenarios, which say how a node's pods use its memory and its disk, and tells what happens when
// [sim] plays them.
package scenario

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/evictd/evictd/internal/sim"
	"github.com/evictd/evictd/internal/strictyaml"
)

// form is what the file of a scenario says it is.
var form = strictyaml.Form{APIVersion: "evictd.dev/v1alpha1", Kind: "Scenario", What: "scenario", Key: "scenario.yaml"} //nolint:gochecknoglobals // a constant

// A scenario is played step by step: a longer one, or one of more pods, would take too long to wait for.
const (
	longest   = 4 * time.Hour
	mostPods  = 250
	mostBytes = 1 << 50
)

// Load returns the scenario in a file. An Aggregate of k8s.io/apimachinery/pkg/util/errors has the faults of the content, one
// line each, as of a configuration. Any other error says that the file could not be read.
func Load(path string) (*sim.Scenario, error) {
	data, err := strictyaml.ReadFile(path, "the scenario")
	if err != nil {
		return nil, err
	}
	s, c := &sim.Scenario{}, checker{&strictyaml.Faults{}}
	if c.Read(path, data, &form, s) {
		c.scenario(s)
		c.End()
	}
	if err := c.Err("invalid scenario"); err != nil {
		return nil, err
	}
	return s, nil
}

// checker collects what is wrong with a scenario.
type checker struct{ *strictyaml.Faults }

func (c checker) scenario(s *sim.Scenario) {
	strictyaml.OneOf(c.Faults, field.NewPath("apiVersion"), s.APIVersion, form.APIVersion)
	strictyaml.OneOf(c.Faults, field.NewPath("kind"), s.Kind, form.Kind)
	strictyaml.Between(c.Faults, field.NewPath("duration"), s.Duration.Duration, time.Second, longest, "")
	node := field.NewPath("node")
	strictyaml.Between(c.Faults, node.Child("memory"), s.Node.Memory.Value(), sim.Mebi, mostBytes, " bytes")
	c.curve(node.Child("system"), &s.Node.System)
	if s.Node.PodsLimit.Sign() < 0 {
		c.Invalid(node.Child("podsLimit"), s.Node.PodsLimit.String(), "must not be negative")
	}
	if v := s.Node.Disk; v != nil {
		if v.Capacity.Value() < sim.Mebi {
			c.Invalid(node.Child("disk", "capacity"), v.Capacity.String(), "must be at least 1Mi")
		}
		c.curve(node.Child("disk", "system"), &v.System)
		c.curve(node.Child("disk", "unusedImages"), &v.UnusedImages)
	}
	names, all := map[string]bool{}, int32(0)
	for i := range s.Pods {
		path, w := field.NewPath("pods").Index(i), &s.Pods[i]
		c.workload(path, w)
		if key := cmp.Or(w.Namespace, "default") + "/" + w.Name; names[key] {
			c.Add(field.Duplicate(path.Child("name"), w.Name))
		} else {
			names[key] = true
		}
		all += min(ptr.Deref(w.Replicas, 1), mostPods)
	}
	if all > mostPods {
		c.Add(field.TooMany(field.NewPath("pods"), int(all), mostPods))
	}
	for i, f := range s.API {
		path := field.NewPath("api").Index(i)
		for _, before := range s.API[:i] {
			if f.After.Duration < before.After.Duration+before.For.Duration && before.After.Duration < f.After.Duration+f.For.Duration {
				c.Invalid(path.Child("after"), f.After.Duration, "overlaps a fault above")
			}
		}
		strictyaml.OneOf(c.Faults, path.Child("fault"), f.Fault, sim.Faults()...)
		strictyaml.AtLeast(c.Faults, path.Child("after"), f.After.Duration, 0, "")
		strictyaml.AtLeast(c.Faults, path.Child("for"), f.For.Duration, time.Second, "")
	}
}

func (c checker) workload(path *field.Path, w *sim.Workload) {
	for at, name := range map[*field.Path]string{path.Child("name"): w.Name, path.Child("namespace"): w.Namespace} {
		if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 && (name != "" || strings.HasSuffix(at.String(), ".name")) {
			c.Invalid(at, name, "must be lower case letters, digits and -, at most 63")
		}
	}
	if w.Controller != "" {
		strictyaml.OneOf(c.Faults, path.Child("controller"), w.Controller, "ReplicaSet", "DaemonSet", "None")
	}
	strictyaml.Between(c.Faults, path.Child("replicas"), ptr.Deref(w.Replicas, 1), 1, mostPods, "")
	strictyaml.AtLeast(c.Faults, path.Child("starts"), w.Starts.Duration, 0, "")
	for name, amount := range map[string]int64{"request": w.Request.Value(), "limit": w.Limit.Value()} {
		strictyaml.AtLeast(c.Faults, path.Child(name), amount, 0, "")
	}
	strictyaml.AtLeast(c.Faults, path.Child("grace"), ptr.Deref(w.Grace, metav1.Duration{Duration: time.Second}).Duration, time.Second, "")
	strictyaml.AtLeast(c.Faults, path.Child("stops"), ptr.Deref(w.Stops, metav1.Duration{}).Duration, 0, "")
	strictyaml.AtLeast(c.Faults, path.Child("maxUnavailable"), ptr.Deref(w.MaxUnavailable, 0), 0, "")
	for name, curve := range map[string]*sim.Curve{"memory": &w.Memory, "cache": &w.Cache, "disk": &w.Disk} {
		c.curve(path.Child(name), curve)
	}
}

// curve checks that a curve has what its shape needs, and nothing else.
func (c checker) curve(path *field.Path, v *sim.Curve) {
	if v.Shape != "" {
		strictyaml.OneOf(c.Faults, path.Child("shape"), v.Shape, sim.Shapes()...)
	}
	for name, amount := range map[string]int64{"from": v.From.Value(), "to": v.To.Value()} {
		strictyaml.Between(c.Faults, path.Child(name), amount, 0, mostBytes, " bytes")
	}
	strictyaml.AtLeast(c.Faults, path.Child("after"), v.After.Duration, 0, "")
	shape := cmp.Or(v.Shape, sim.ShapeConstant)
	if shape == sim.ShapeConstant && !v.To.IsZero() {
		c.Invalid(path.Child("to"), v.To.String(), "a constant has none: write a shape")
	}
	c.time(path.Child("over"), v.Over.Duration, shape, shape == sim.ShapeLeak || shape == sim.ShapeBurst, false)
	c.time(path.Child("every"), v.Every.Duration, shape, shape == sim.ShapeSawtooth, shape == sim.ShapeBurst)
	if v.Every.Duration != 0 && v.Every.Duration < v.Over.Duration {
		c.Invalid(path.Child("every"), v.Every.Duration, "must not be shorter than over")
	}
}

// time checks a time that a shape needs, or may have.
func (c checker) time(path *field.Path, is time.Duration, shape sim.Shape, needed, taken bool) {
	switch {
	case needed || taken && is != 0:
		strictyaml.AtLeast(c.Faults, path, is, sim.Moment, fmt.Sprintf(" for a %s", shape))
	case is != 0:
		c.Invalid(path, is, fmt.Sprintf("a %s has none", shape))
	}
}
