package main

import "testing"

func TestKibibytes(t *testing.T) {
	status := []byte("Name:\tevictd\nVmHWM:\t   32768 kB\nVmRSS:\t   30720 kB\n")
	for name, want := range map[string]float64{"VmHWM:": 32768, "VmRSS:": 30720, "RssAnon:": 0} {
		if got := kibibytes(status, name); got != want {
			t.Errorf("%s %v, want %v", name, got, want)
		}
	}
}

func TestVerdict(t *testing.T) {
	if got := verdict(0.3, budgetCPU); got != "≤ 0.2: MISSED" {
		t.Error(got)
	}
	if got := verdict(0.2, budgetCPU); got != "≤ 0.2: kept" {
		t.Error(got)
	}
}
