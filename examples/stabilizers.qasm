OPENQASM 3.0;
include "stdgates.inc";

// With strength pi and turn -pi/2, the circuit inverts the preparation of the cluster state. Each Z then measures a
// stabilizer of it.
input float[64] strength;
input float[64] phase_shift;
input float[64] turn;

gate basis(about_z, about_y) a {
    rz(about_z) a;
    ry(about_y) a;
}

qubit[8] q;
bit[8] c;
cp(strength) q[0], q[1];
cp(strength) q[2], q[3];
cp(strength) q[4], q[5];
cp(strength) q[6], q[7];
cp(strength) q[1], q[2];
cp(strength) q[3], q[4];
cp(strength) q[5], q[6];
cp(strength) q[7], q[0];
basis(phase_shift, turn) q;
c = measure q;
