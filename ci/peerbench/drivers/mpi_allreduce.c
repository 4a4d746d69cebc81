/* All-reduce of f32 sums, out of place, as fabbench allreduce times it: warm-up, barrier, then timed
 * runs without a barrier between them; the mean of the slowest rank counts. The last result is
 * compared: wrong sums are an error and give no figure.
 *
 *     mpirun -n N mpi_allreduce BYTES WARMUPS ITERATIONS
 */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static float value(int rank, size_t i) { return (float)(1 + (i * 2654435761u + (size_t)rank * 97) % 1000); }

static size_t wrong(const float *result, size_t count, int ranks) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        float want = 0;
        for (int rank = 0; rank < ranks; rank++)
            want += value(rank, i);
        found += result[i] != want;
    }
    return found;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 4) {
        fprintf(stderr, "usage: mpi_allreduce BYTES WARMUPS ITERATIONS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    size_t count = strtoul(argv[1], NULL, 10) / sizeof(float);
    int warmups = atoi(argv[2]), iterations = atoi(argv[3]);
    float *input = malloc(count * sizeof(float)), *result = calloc(count, sizeof(float));
    if (count == 0 || iterations < 1 || !input || !result)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (size_t i = 0; i < count; i++)
        input[i] = value(rank, i);
    for (int i = 0; i < warmups; i++)
        MPI_Allreduce(input, result, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (int i = 0; i < iterations; i++)
        MPI_Allreduce(input, result, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    double mean = (MPI_Wtime() - begin) / iterations, slowest = 0;
    unsigned long bad = wrong(result, count, ranks), all_bad = 0;
    MPI_Reduce(&mean, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&bad, &all_bad, 1, MPI_UNSIGNED_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0 && all_bad > 0)
        fprintf(stderr, "%lu elements wrong\n", all_bad);
    else if (rank == 0)
        printf("mean of the slowest rank: %.3f us\n", slowest * 1e6);
    MPI_Finalize();
    return rank == 0 && all_bad > 0;
}
