package config

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The bounds of a walk through the files. With less CPU its figures would be stale before it ends.
const (
	walkCPULowest      = 10 // thousandths of a core
	walkWorkersHighest = 16
)

// WalkCores returns disk.cpu in cores. A value that is not valid is one core.
func (c *EvictdConfiguration) WalkCores() float64 {
	const thousandths = 1000
	milli, err := c.Disk.milliCPU()
	if err != nil {
		return 1
	}
	return float64(milli) / thousandths
}

func (d *Disk) milliCPU() (int64, error) {
	cpu, err := ParseQuantity(d.CPU)
	if err != nil {
		return 0, errors.New(`must be an amount of CPU, such as "200m"`)
	}
	const milliPerWorker = 1000
	highest := int64(max(d.Workers, 1)) * milliPerWorker
	if milli := cpu.MilliValue(); milli >= walkCPULowest && milli <= highest {
		return milli, nil
	}
	return 0, fmt.Errorf("must be between %dm and %d, one core for each of disk.workers", walkCPULowest, max(d.Workers, 1))
}

func (v *validator) disk() {
	path := field.NewPath("disk")
	if s := v.c.Disk.Source; s != DiskSummary && s != DiskNode {
		v.add(field.NotSupported(path.Child("source"), s, []DiskSource{DiskSummary, DiskNode}))
	}
	if n := v.c.Disk.Workers; n < 1 || n > walkWorkersHighest {
		v.add(field.Invalid(path.Child("workers"), n, fmt.Sprintf("must be between 1 and %d", walkWorkersHighest)))
	}
	cpu := path.Child("cpu")
	if _, err := v.c.Disk.milliCPU(); err != nil && !v.broken[cpu.String()] {
		v.add(field.Invalid(cpu, v.c.Disk.CPU, err.Error()))
	}
}
