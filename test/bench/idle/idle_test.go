package main

import "testing"

func TestVerdict(t *testing.T) {
	if got := verdict(0.3, budgetCPU); got != "≤ 0.2: MISSED" {
		t.Error(got)
	}
	if got := verdict(0.2, budgetCPU); got != "≤ 0.2: kept" {
		t.Error(got)
	}
}
