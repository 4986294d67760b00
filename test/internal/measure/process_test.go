package measure_test

import (
	"os"
	"testing"
	"time"

	"github.com/evictd/evictd/test/internal/measure"
)

func TestProcessIsRead(t *testing.T) {
	t.Parallel()
	const held = 64 << 20
	before, err := measure.RSS(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	memory := make([]byte, held)
	for i := range memory {
		memory[i] = byte(i)
	}
	after, err := measure.RSS(os.Getpid())
	if err != nil || after-before < held/2 {
		t.Errorf("%d bytes more after %d were written to (%v)", after-before, held, err)
	}
	spent, err := measure.CPU(os.Getpid())
	if err != nil || spent <= 0 {
		t.Errorf("this process has used %v (%v)", spent, err)
	}
	machine, err := measure.ReadMachineCPU()
	if err != nil || machine.Busy < spent || machine.Idle < 0 || machine.Stolen < 0 {
		t.Errorf("the machine has used %+v, this process %v of it (%v)", machine, spent, err)
	}
	if _, err := measure.CPU(1 << 22); err == nil {
		t.Error("a process that does not exist was read")
	}
	if rest := machine.Since(measure.MachineCPU{Busy: time.Second}); rest.Busy != machine.Busy-time.Second {
		t.Errorf("%v passed", rest.Busy)
	}
	_ = memory[0]
}
