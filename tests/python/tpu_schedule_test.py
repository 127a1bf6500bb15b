"""Tests of tpu_schedule.py on listings small enough to count by hand; no compiler needed."""
import sys
import unittest

import tpu_schedule

FIGURES = {
    "branch_delay_cycles": 1,
    "dma_granule_bytes": 32,
    "dma_bytes_per_cycle": 8.0,
    "hbm_to_vmem_latency_cycles": 100,
    "vmem_to_hbm_latency_cycles": 50,
}
# Starts when memory says 1; then calls `kernel` twice, once with 5 and once with 3 in s0.
TOP = """
     0   :  { %s1_s9 = sld [smem:[#allocation2]] }
   0x1   :  { %p2_p0 = scmp.ne.s32.totalorder %s1_s9, 1 }
   0x2   :  { %3 = sbr.rel (%p2_p0) target bundleno = 6 (0x6), region = 4 }
   0x3   :  { %s4_s0 = smov.u32 5  ;;  %v5_v0 = vld [vmem:[%s1_s9] sm:$0xff] }
   0x4   :  { %6 = inlined_call %s4_s0 /* %kernel = custom-call(%x) */  ;;  %s7_s0 = smov.u32 3 }
   0x5   :  { %8 = inlined_call %s7_s0 /* %kernel = custom-call(%x) */ }
   0x6   :  {}
"""
# A loop of s0 steps, 0x2 to 0xa, of which the odd ones skip 0x6; 0x5 and 0xa are the delays of the branches before them.
LOOP = """
     0   :  { %s0_s0 = inlined_call_operand.hbm [shape: f32[8]] }
   0x1   :  { %s1_s1 = smov.u32 0 /* a comment
over two lines */ }
   0x2 LB: > { %s2_s2 = sand.u32 1, %s1_s1  ;;  %s1_s1 = sphi %s1_s1, %s9_s1 }
   0x3   : > { %p3_p1 = scmp.eq.s32.totalorder %s2_s2, 1 }
   0x4   : > { %4 = sbr.rel (%p3_p1) target bundleno = 7 (0x7), region = 2 }
   0x5   : > {}
   0x6   : > { %v5_v1 = vadd.f32 %v4_v0, %v4_v0 }
   0x7   : > { %s9_s1 = sadd.s32 1, %s1_s1 }
   0x8   : > { %p10_p2 = scmp.lt.s32.totalorder %s9_s1, %s0_s0 }
   0x9   : > { %11 = sbr.rel (%p10_p2) target bundleno = 2 (0x2), region = 1 }
   0xa   : > {}
"""
# 64 granules are 2048 bytes: 256 cycles at 8 bytes a cycle, and 100 of latency, from bundle 1 on.
COPY = """
     0   :  { %s1_s1 = scalar_lea.sflag [#allocation3], 1 }
   0x1   :  { %2 = dma.hbm_to_vmem /*hbm=*/%s0_s0, /*size_in_granules=*/64, /*vmem=*/%s0_s0, /*dst_syncflagno=*/%s1_s1 }
   0x2   :  { %3 = dma.done.wait [#allocation3 + $0x1], 64 }
   0x3   :  { %4 = vsyncadd [#allocation3 + $0x1], 4294967232 }
   0x4   :  { %5 = dma.general /*src=*/%s0_s0, /*size_in_granules=*/64, /*dst=*/%s0_s0, /*dst_syncflagno=*/%s1_s1 /* vmem-to-hbm */ }
   0x5   :  { %6 = dma.done.wait [#allocation3 + $0x1], 64 }
"""


def run(independent=False, scalars=(), **programs):
    programs = {name: tpu_schedule.Program(name, text) for name, text in programs.items()}
    machine = tpu_schedule.Machine(programs, FIGURES, independent, scalars)
    machine.run(machine.programs[tpu_schedule.MAIN])
    return machine


class Reader(unittest.TestCase):
    def test_loops_branches_and_their_delay_are_counted(self):
        machine = run(TLP=TOP, kernel=LOOP)
        # Two bundles before the loop; a step has nine, or eight where it skips 0x6.
        self.assertEqual([call[:2] for call in machine.calls], [("kernel", 2 + 3 * 9 + 2 * 8), ("kernel", 2 + 2 * 9 + 1 * 8)])
        self.assertEqual(machine.cycles, 7 + 45 + 28)
        # What is not in the code of the program is called from where it is.
        self.assertEqual(run(TLP=TOP.replace("inlined_call", "call"), kernel=LOOP).calls, machine.calls)

    def test_operations_of_a_bundle_read_what_was_before_it(self):
        machine = run(TLP="     0   :  { %s1_s1 = smov.u32 7 }\n   0x1   :  { %s2_s2 = sadd.s32 1, %s1_s1  ;;  %s3_s1 = smov.u32 9 }\n")
        self.assertEqual(machine.S[1:3], [9, 8])

    def test_predicates_hold_for_moves_loads_and_arithmetic(self):
        text = """
     0   :  { %p1_p1 = scmp.lt.s32.totalorder 4294967295, 0  ;;  %s2_s2 = smov.u32 5 }
   0x1   :  { %s3_s3 = smov.u32 (!%p1_p1, %s2_s2), 6  ;;  %s4_s4 = smov.u32 (%p1_p1, %s2_s2), 6 }
   0x2   :  { %s5_s2 = sadd.s32 (!%p1_p1), 1, %s2_s2  ;;  %s6_s5 = smin.u32 4294967295, %s2_s2 }
   0x3   :  { %s7_s6 = scalar_select /*predicate=*/%p1_p1, /*on_true=*/%s3_s3, /*on_false=*/%s4_s4 }
"""
        self.assertEqual(run(TLP=text).S[2:7], [5, 5, 6, 5, 5])

    def test_an_address_may_say_what_it_points_to(self):
        text = """
     0   :  { %s1_s1 = smov.u32 8 }
   0x1   :  { %s2_s2 = scalar_lea.vmem %s1_s1, 504 [#allocation3]  ;;  %s3_s3 = smov.u32 %s1_s1 [#allocation3] }
"""
        self.assertEqual(run(TLP=text).S[1:4], [8, 512, 8])

    def test_halves_of_products_and_masks(self):
        text = """
     0   :  { %s1_s1 = smov.u32 100  ;;  %s2_s2 = smov.u32 3  ;;  %s3_s3 = smov.u32 0 }
   0x1   :  { %s4_s4 = smulhi.u32 2863311531, %s1_s1  ;;  %s5_s5 = sshllo.u32 %s3_s3, %s2_s2  ;;  %s6_s6 = sshllo.u32 %s2_s2, %s2_s2 }
"""
        self.assertEqual(run(TLP=text).S[4:7], [100 * 2 // 3, 0b111, 0b11111])

    def test_carries_of_sums_and_data(self):
        text = """
     0   :  { %s1_s1 = smov.u32 4294967295  ;;  %s2_s2 = smov.u32 1  ;;  %s3_s3 = smov.u32 9 }
   0x1   :  { %p4_p1 = sc.u32 %s1_s1, %s2_s2  ;;  %p5_p2 = sc.u32 %s2_s2, 4294967294  ;;  %s6_s3 = smul.f32 2.5, %s3_s3 }
"""
        machine = run(TLP=text)
        self.assertEqual((machine.P[1:3], machine.S[3]), ([True, False], 0))

    def test_independent_copies_do_not_take_turns(self):
        two = COPY.replace("   0x2 ", "   0x2   :  { %9 = dma.hbm_to_vmem /*hbm=*/%s0_s0, /*size_in_granules=*/64, /*vmem=*/%s0_s0, /*dst_syncflagno=*/9 }\n   0x3 ", 1)
        shared, independent = [run(independent, TLP=two).stalled for independent in (False, True)]
        self.assertGreater(shared, independent)

    def test_a_wait_stalls_until_its_copy_is_done(self):
        machine = run(TLP=COPY)
        self.assertEqual(machine.cycles, 6)
        # Done at 1 + 356 and waited for at 2; then from bundle 4, stalled 355 before, done after 306, waited for one later.
        self.assertEqual(machine.stalled, 355 + 305)
        self.assertEqual(machine.bytes, {"hbm_to_vmem": 2048, "vmem_to_hbm": 2048})

    def test_scalars_are_prefetched(self):
        # Operand 1 is copied from HBM, operand 3 from VMEM, whose addresses are shifted; operand 2 has one element.
        text = """
     0   :  { %s0_s0 = inlined_call_operand.hbm [shape: s32[3], index: 1, kind: input, shape index: {}]  ;;  %s1_s1 = smov.u32 [#allocation8] }
   0x1   :  { %s2_s2 = inlined_call_operand.<no memory space> [shape: s32[1], index: 2, kind: input, shape index: {}] }
   0x2   :  { %s3_s3 = inlined_call_operand.vmem [shape: s32[2], index: 3, kind: input, shape index: {}]  ;;  %s4_s4 = smov.u32 [#allocation9] }
   0x3   :  { %s3_s3 = sshll.u32 %s3_s3, 4 }
   0x4   :  { %5 = dma.hbm_to_smem /*hbm=*/%s0_s0, /*size_in_granules=*/16, /*smem=*/%s1_s1, /*dst_syncflagno=*/[#allocation1] }
   0x5   :  { %6 = dma.vmem_to_smem /*vmem=*/%s3_s3, /*size_in_granules=*/16, /*smem=*/%s4_s4, /*dst_syncflagno=*/[#allocation1] }
   0x6   :  { %s7_s5 = sld [smem:[#allocation8 + $0x2]]  ;;  %s8_s6 = sld [smem:[#allocation9 + $0x1]] }
   0x7   :  { %9 = sst [smem:[#allocation10]] %s2_s2 }
"""
        machine = run(scalars=[None, [4, 5, 6], [7], [8, 9]], kernel=text, TLP="     0   :  { %1 = inlined_call /* %kernel = custom-call() */ }\n")
        self.assertEqual(machine.memory.get(machine.addresses["kernel", "#allocation8"] + 2), 6)
        self.assertEqual(machine.memory.get(machine.addresses["kernel", "#allocation9"] + 1), 9)
        self.assertEqual(machine.memory.get(machine.addresses["kernel", "#allocation10"]), 7)

    def test_what_is_not_known_is_an_error(self):
        with self.assertRaisesRegex(tpu_schedule.Unreadable, "sfrobnicate"):
            run(TLP="     0   :  { %s1_s1 = sfrobnicate.u32 7 }\n")
        with self.assertRaisesRegex(tpu_schedule.Unreadable, "no copy under way"):
            run(TLP="     0   :  { %1 = dma.done.wait [#allocation1], 8 }\n")


if __name__ == "__main__":
    outcome = unittest.main(exit=False).result
    failed = len(outcome.failures) + len(outcome.errors)
    print(f"{outcome.testsRun - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)
