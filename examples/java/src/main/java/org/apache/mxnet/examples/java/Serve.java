package org.apache.mxnet.examples.java;

import java.util.Collections;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.mxnet.infer.javaapi.Predictor;
import org.apache.mxnet.javaapi.Context;
import org.apache.mxnet.javaapi.DType;
import org.apache.mxnet.javaapi.DataDesc;
import org.apache.mxnet.javaapi.Layout;
import org.apache.mxnet.javaapi.Shape;

/** Serves a trained network to several threads, which share one predictor: {@code Serve PREFIX EPOCH INPUT SIZE}. */
public final class Serve {
  private Serve() {}

  /** A predictor for a network with one input of `size` numbers. */
  public static Predictor load(String prefix, int epoch, String input, int size) {
    DataDesc desc = new DataDesc(input, new Shape(new int[] {1, size}), DType.Float32(), Layout.NT());
    return new Predictor(prefix, List.of(desc), List.of(Context.cpu()), epoch);
  }

  /** The class with the highest number for each request, computed by `threads` threads. */
  public static List<Integer> classes(Predictor predictor, List<float[]> requests, int threads) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    try {
      List<Future<Integer>> answers =
          requests.stream()
              .map(request -> pool.submit(() -> highest(predictor.predict(new float[][] {request})[0])))
              .collect(Collectors.toList());
      List<Integer> classes = new java.util.ArrayList<>();
      for (Future<Integer> answer : answers) classes.add(answer.get());
      return classes;
    } finally {
      pool.shutdown();
    }
  }

  private static int highest(float[] numbers) {
    int best = 0;
    for (int i = 1; i < numbers.length; i++) if (numbers[i] > numbers[best]) best = i;
    return best;
  }

  public static void main(String[] args) throws Exception {
    if (args.length != 4) {
      System.err.println("Usage: Serve PREFIX EPOCH INPUT SIZE");
      System.exit(2);
    }
    int size = Integer.parseInt(args[3]);
    Predictor predictor = load(args[0], Integer.parseInt(args[1]), args[2], size);
    List<float[]> requests = Collections.nCopies(8, new float[size]);
    System.out.println("classes of eight requests of zeros: " + classes(predictor, requests, 4));
  }
}
